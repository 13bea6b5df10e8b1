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
//	Permanent(err)             given up at once: terminated at the server
//	RetryAfter(d, err)         comes back after d
//	any other error, a panic,  comes back after the retry policy's delay;
//	runtime.Goexit, a timeout  after the last attempt it is given up like Permanent
//	an error after the drain's comes back at once; no failure
//	grace has ended
//
// Permanent and RetryAfter hold through fmt.Errorf("%w") and errors.Join. Permanent wins over RetryAfter. What a handler returns
// decides even when its context has ended: nil is acknowledged, Permanent is given up.
//
// # Context
//
// A handler's context carries the values of the context that Run was given, and a deadline, the handle timeout. It does not end when
// the Runner is told to stop: a handler may finish what it began while the drain's grace lasts. When it ends,
// context.Cause tells why: ErrHandleTimeout, ErrStopping or ErrLeaseLost.
//
// # Attempts
//
// Message.Attempt is the server's count of deliveries, 1 on the first. The server counts what it sent, not what a handler ran: a message
// that was handed back at a stop, or got lost in a connection that broke, has one delivery more. So give the limit of
// attempts room. A message whose attempts are used up is given up when it fails the next time, never unseen.
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
