// Package fault finds out what a worker does when things break: its own processes, the server, the leader, the disk. It is for the tests of
// services that use Ackfloor as much as for Ackfloor's own, and most of it works in a program as well as in a test. Package
// testutil/fault/network, a module of its own, breaks the network.
//
// # The pieces
//
//   - Child and Process: a program of the test binary (or of any binary) as a process, which is told to end, killed, or held up for a while.
//     Main, in TestMain, makes the test binary run such a program when it is started as a child; RunChild does so in a main.
//   - Crew: so many workers, each a Child, that are started again after every fault.
//   - Fault and Schedule: what breaks, how often, drawn from a seed that is printed. Term, Kill and Hang of a Crew; StopServer, KillServer,
//     HangServer and LameDuck of a server; MoveLeader, KillLeader, KillFollower and LoseMajority of a cluster; Disk.Full. A Fault is a struct: write your own.
//   - Journal: a file to which workers append a line for each event. Wrap puts a handler into it; Settled and Sample add what a Runner knows.
//   - Ledger: publishes numbered messages while all that happens, and keeps which of them the server has confirmed.
//   - Floor: looks at the consumer all the time, and keeps where its ack floor was.
//   - Tap: listens to the settlements on their way to the server.
//   - Check: takes what these have seen and tells what became of each message. A Report prints it; Require holds it against invariants.
//   - Trial: all of it together, in one call.
//
// # Words
//
// Those of Jepsen. A message is lost when its publisher got a confirmation and no handler ever returned nil for it, nor is it in the dead
// letters; lost messages are told apart into a prefix, a middle and a postfix of what was published. It is recovered when its publisher never
// heard, and yet it was stored and handled. It is unexpected when it was handled and nobody published it. It was handled again when a handler
// returned nil for it a second time: after the server had confirmed the first ack, or before.
//
// # Without a test
//
// What takes a testing.TB fails the test. Each of those has a counterpart that returns an error: Child.Start for Start, NewCrew for StartCrew,
// OpenJournal for NewJournal, Report.Broken for Report.Require, Trial.Run for Trial.Test, and in package testutil NewServerProcess and
// NewProcessCluster.
package fault
