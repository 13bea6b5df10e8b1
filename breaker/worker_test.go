package breaker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/breaker"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// An outage of five minutes under a real worker: the failures before it opens are charged, nothing from then on; one message at a time is
// tried, no lease is lost, and all are handled in the end.
func TestOutageUnderAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages, outage = 200, 5 * time.Minute
		s := testutil.Bubble(t)
		s.Events(t, messages)
		db, err := breaker.New(breaker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var down atomic.Bool
		var during, atOnce, most atomic.Int64
		var calls testutil.Recorder
		h := ackfloor.Chain(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			if db.State() != breaker.Closed { // a trial
				most.Store(max(most.Load(), atOnce.Add(1)))
				defer atOnce.Add(-1)
			}
			time.Sleep(10 * time.Millisecond)
			if !down.Load() {
				return nil
			}
			during.Add(1)
			return errDown
		}), db.Wrap, calls.Wrap)
		r, err := worker.New(s.Conn(t), worker.Config{Stream: "EVENTS", Consumer: "orders", Concurrency: 4, MaxAttempts: 2, RetrySchedule: "1s", Logger: zap.NewNop()}, h)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		calls.WaitDistinct(t, 20, 5*time.Second)

		down.Store(true)
		time.Sleep(outage)
		if n := during.Load(); n < 30 || n > 40 { // five that open it and three beside, then one every 10 s
			t.Errorf("%d calls in %v of outage", n, outage)
		}
		if st := r.Status(); st.Paused == "" || st.Running != 0 || db.State() != breaker.Open {
			t.Errorf("%v, paused %q, %d run", db.State(), st.Paused, st.Running)
		}
		down.Store(false)
		s.WaitInfo(t, "EVENTS", "orders", time.Minute, "everything settled", func(i *jetstream.ConsumerInfo) bool {
			return i.AckFloor.Stream == messages && i.NumAckPending == 0
		})
		if c := r.Status().Counts; c.Retried != 4 || c.Terminated+c.DeadLettered+c.LeasesLost != 0 || c.Acked != messages {
			t.Errorf("charged or lost: %+v", c)
		}
		if most.Load() != 1 || db.State() != breaker.Closed {
			t.Errorf("%d trials at once, %v", most.Load(), db.State())
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
