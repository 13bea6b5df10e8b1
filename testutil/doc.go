// Package testutil tests message handlers and workers against a real nats-server. Nothing in it is a mock: what a test
// sees is what the server does. It is meant for the tests of services that use Ackfloor as much as for Ackfloor's own.
//
// # Which server
//
//   - Server: in process, on a loopback port. The one to take when in doubt. It can be stopped and started again on the
//     same port with the same store.
//   - Bubble: in process, without a listener, for tests inside a testing/synctest bubble, where time is virtual: three
//     deliveries at an ack wait of 30 s take milliseconds.
//   - Cluster: several in process, for replicas and for leaders that move.
//   - ServerProcess: the nats-server binary as a process of its own, for SIGTERM and SIGKILL.
//
// All of them share the methods of Access: connections, streams, consumers, and waiting for a consumer to reach a state.
// All of them end with the test, through t.Cleanup, and use free ports and temporary directories, so that tests may run in
// parallel (but see Bubble). A check for leaked goroutines belongs into a t.Cleanup registered before the server.
//
// # Without a server
//
// Message makes a message, Recorder records what a handler was called with, and Succeed, Fail, Sleep, Block, Stubborn,
// Panic, Goexit and ByData are handlers that follow a script. A handler is tested by calling it:
//
//	err := h.Handle(ctx, testutil.Message("orders.new", order, testutil.Attempt(3)))
//
// # Failing
//
// Whatever takes a testing.TB fails the test by t.Fatal, in words that tell what was waited for and what was seen last. So
// call it from the goroutine of the test.
package testutil
