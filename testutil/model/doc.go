// Package model is a model of a nats-server with one stream and one durable pull consumer: a few hundred lines that show a client what nats-server
// 2.15 shows, and that go wrong when they are told to, in ways in which a real server goes wrong once in a while. It serves tests of what works on a
// consumer:
//
//	synctest.Test(t, func(t *testing.T) {
//		m := model.New(model.Config{Stream: "EVENTS", Subjects: []string{"events.>"}, Replicas: 3})
//		t.Cleanup(m.Close)
//		nc, err := m.Connect(nats.Name("a"))
//		…                                  // a worker.Runner on nc, which makes the consumer
//		m.Publish("events.x", []byte("1"))
//		m.MoveLeader(200 * time.Millisecond)
//		…
//	})
//
// It runs inside a testing/synctest bubble, where its time is virtual, and outside one. A check of a Runner on it takes some milliseconds, so that
// thousands of random ones fit into a minute; a real server serves a few tests that are thought out.
//
// # What it models
//
// Of the consumer (consumer.go, pulls.go, settle.go): the messages that are pending, with the time from which ack_wait counts for each, and the one
// that is stored; the queue of what comes again, and its order; max_ack_pending and max_waiting; waiting pulls, which take turns, with batch,
// expires, max_bytes, no_wait, heartbeats and every status that they end with, and the consumer's limits on them; acks, naks with and without a
// delay, terms, word of progress, the ack that asks for the next; the ack floor, delivery counts, and the counts in reply subjects. Of what goes
// wrong (faults.go): a stop and a start, and a change of leader, behind which ack_wait counts from what is stored, which is the time when a message
// was published, unless there was word of progress, and the advisory that tells of a new leader; connections that are cut, with what was under way; pulls and settlements that are lost, answered
// with 503 or late. Of the protocol (conn.go, route.go, api.go): what nats.go and a Runner need, over a pipe.
//
// That it behaves as a server does is not a matter of belief: the package's tests do the same things to it and to a real server in one bubble, case
// by case and at random, and compare all that a client sees, to the microsecond.
//
// # What it does not model
//
// Filters, start policies other than all, max_deliver, backoff, pinned and push consumers, pauses, deletions, limits and retention of streams, work
// queues, several streams or consumers, accounts and permissions, TLS. A server that is killed and forgets what it had confirmed. The races of a real
// server between acks and pulls of one client, which different goroutines of it take: the model takes everything in the order in which it came.
//
// One thing is otherwise on purpose: each client, told apart by the name of its connection, is shown another time at which the consumer was created,
// since two Runners in one process refuse to share a consumer.
package model
