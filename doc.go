// Package ackfloor is a framework for worker processes on durable NATS JetStream pull consumers. A worker.Runner binds a Handler
// to a named durable consumer, pulls batches, acknowledges what succeeded, gives back with a delay what failed, and drains on SIGTERM, so
// that the next process resumes at the ack floor: nothing skipped, and after a clean stop nothing handled twice.
//
//	func main() {
//		worker.Main(ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
//			return reserve(ctx, m.Data)
//		}))
//	}
//
// This page is the contract between a Handler and a Runner.
//
// # Delivery
//
// At least once. A message is acknowledged only after its handler has returned nil, and the acknowledgement is sent again
// until the server has confirmed it. So a message is handled again only if the process died while it held it, if the lease was lost, or if
// the server itself forgot (see docs/guarantees.md). A redelivery of a message that this process is still handling, or
// has just settled, does not reach the handler.
//
// # Outcomes
//
// What a handler returns decides what becomes of the message:
//
//	nil                        acknowledged, confirmed
//	Permanent(err)             given up at once: goes to the dead letters, then is terminated
//	RetryAfter(d, err)         comes back after d
//	Pause(d, err)              stays held; nothing is pulled or started for d, then one
//	                           message is tried; no failure
//	any other error, a panic,  comes back after the retry policy's delay;
//	runtime.Goexit, a timeout  after the last attempt it is given up like Permanent
//	an error after the drain's comes back at once; no failure
//	grace has ended
//
// Permanent, RetryAfter and Pause hold through fmt.Errorf("%w") and errors.Join. Permanent wins over Pause, and Pause over RetryAfter. What a
// handler returns decides even when its context has ended: nil is acknowledged, Permanent is given up.
//
// What is given up is written to a dead-letter stream, and terminated only when the server has confirmed that; see package deadletter. There it can
// be looked at and replayed, to the consumer that failed and to no other.
//
// # Context
//
// A handler's context carries the values of the context that Run was given, and a deadline, the handle timeout. It does not end when
// the Runner is told to stop: a handler may finish what it began while the drain's grace lasts. When it ends,
// context.Cause tells why: ErrHandleTimeout, ErrStopping or ErrLeaseLost.
//
// # Attempts
//
// Message.Attempt counts attempts, from 1: those before it ended with a failure, or were the death of a process in which the message ran alone.
// The server counts something else, what it sent. So workers keep a record of a message that failed, in a key-value bucket: a
// message that was handed back at a stop, or got lost in a connection that broke, or ran beside one that killed the process, is charged with
// nothing. Without the bucket Attempt is the server's count; then give the limit of attempts room.
//
// A message whose attempts are used up goes to the dead letters, without another call where none of its attempts ended with a word: killed,
// hung, stopped. One that comes a third time without any outcome is a suspect, and runs with no other handler beside it; when that was
// the death of three processes, it is convicted.
//
// # Leases
//
// A message that a Runner holds, running or waiting for a slot, stays leased: the Runner tells the server before ack_wait
// passes. A handler may take as long as the handle timeout allows, whatever ack_wait is. If the server can't be told for ack_wait, the
// handler's context ends with ErrLeaseLost, since another worker may have the message by then.
//
// # Order and concurrency
//
// Up to Config.Concurrency handlers run at once, in the order of delivery, which is the stream's for messages that do not
// come back. With Concurrency 1 and one process, messages that do not fail are handled in stream order. Several processes on one
// durable share its messages.
//
// # Back-pressure
//
// A Runner asks the server for no more than it has room for: free slots, and a few messages beyond, as many as its slots handle in
// a few round trips. A slow handler therefore holds no more than it runs, and a second process gets its share. Nothing
// else buffers messages.
//
// # Stopping
//
// When the context of Run ends, nothing new is asked for; what is on its way is taken in; what is held is handled while the drain
// timeout lasts; then what still waits is handed back and running handlers are told to end. Run returns when
// every settlement is confirmed, or cannot be. See package worker.
//
// # Testing
//
// A handler is a function: call it with a Message from testutil.Message. Package testutil also runs a real server in process, with
// virtual time if you like, and has recorders and scripted handlers.
package ackfloor
