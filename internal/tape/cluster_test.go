package tape

import (
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// A consumer with one replica goes away with its server, and the stream with three does not: what was known of it is shown, and that it is of before.
func TestAConsumerWhoseServerIsAway(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster, and the 4 s that it waits for consumers")
	}
	leaksNothing(t)
	c := testutil.Cluster(t, 3)
	c.Events(t, 8)
	settle(t, c.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "alone", Replicas: 1}), 3)
	settle(t, c.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "safe"}), 5)
	js := c.JetStream(t)
	r := NewReader(js, "EVENTS")
	if alone := of(t, read(t, r), "alone"); alone.Error != "" || alone.AckFloor != 3 {
		t.Fatalf("%+v", alone)
	}
	away := c.ConsumerLeader(t, "EVENTS", "alone")
	c.StopServer(away)
	look := func(what string, r *Reader, ok func(alone, safe Cursor) bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) { // leaders are elected
			tape, err := r.Read(t.Context())
			if err == nil && tape.Last == 8 && len(tape.Cursors) == 2 && ok(tape.Cursors[0], tape.Cursors[1]) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %v %+v", what, err, tape)
			}
		}
	}
	look("away", r, func(alone, safe Cursor) bool {
		return alone.Error != "" && alone.AckFloor == 3 && safe.Error == "" && safe.AckFloor == 5
	})
	look("away, and never seen", NewReader(js, "EVENTS"), func(alone, safe Cursor) bool {
		return alone.Error != "" && alone.AckFloor == 0 && safe.Error == "" && safe.AckFloor == 5
	})
	c.StartServer(away)
	look("back", r, func(alone, safe Cursor) bool {
		return alone.Error == "" && alone.AckFloor == 3 && safe.Error == "" && safe.AckFloor == 5
	})
}
