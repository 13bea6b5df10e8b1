package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// In a dead-letter stream of several services, A_B with consumer C and A with consumer B_C have one name for the consumer of their replays. Who finds it with the other's
// replays leaves it alone, says so, and works on.
func TestReplaysOfAnotherUnderTheSameName(t *testing.T) {
	for _, mode := range []string{BindEnsure, BindUpdate} {
		synctest.Test(t, func(t *testing.T) {
			s := testutil.Bubble(t)
			r := newRig(t, s, 3)
			w := r.start(testutil.Succeed(), withLetters)
			w.replaying()
			w.ok(w.end())
			name, theirs := deadletter.ReplayConsumer(rigStream, rigConsumer), deadletter.ReplayFilter("another", "one")
			js := s.JetStream(t)
			must(t, js.DeleteConsumer(t.Context(), rigStream+"_DLQ", name))
			s.Consumer(t, rigStream+"_DLQ", jetstream.ConsumerConfig{Durable: name, FilterSubject: theirs, AckPolicy: jetstream.AckExplicitPolicy})
			w = r.start(testutil.Succeed(), withLetters, func(c *Config) { c.Bind = mode })
			r.floor(3, time.Minute)
			time.Sleep(10 * time.Second)
			if got := s.Info(t, rigStream+"_DLQ", name).Config.FilterSubject; got != theirs {
				t.Errorf("%s: it takes %q now", mode, got)
			}
			if r.logged("replays") == 0 {
				t.Errorf("%s: nothing is said", mode)
			}
			w.ok(w.end())
		})
	}
}
