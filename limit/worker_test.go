package limit_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/limit"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
)

// Under a worker no more run than the limit, what waits keeps its lease for much longer than ack_wait, and the status adds up.
func TestAdaptiveUnderAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 60
		r := newRig(t, n)
		a := adaptive(t, limit.AdaptiveConfig{Max: 2, Initial: 2})
		w := r.start(a, testutil.Sleep(900*time.Millisecond), func(c *worker.Config) { c.Concurrency = 16 })
		time.Sleep(1500 * time.Millisecond)
		if st := a.Status(); st != (limit.AdaptiveStatus{Limit: 2, Running: 2, Waiting: 14}) {
			t.Errorf("%+v", st)
		}
		r.once(r.settled("D", n, 2*time.Minute), n)
		if most := r.calls.MaxConcurrent(); most != 2 {
			t.Errorf("%d at once", most)
		}
		if st := a.Status(); st.Running+st.Waiting != 0 || w.Status().Counts.LeasesLost != 0 {
			t.Errorf("%+v, %+v", st, w.Status().Counts)
		}
		w.ended()
	})
}

// A stop half-way: handlers that are interrupted and messages that wait are handed back, neither counts as overload, no place stays taken, and the next worker finds the limit as it was.
func TestStopAtAnAdaptive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 40
		r := newRig(t, n)
		a := adaptive(t, limit.AdaptiveConfig{Max: 12, Initial: 12})
		long := func(c *worker.Config) { c.Concurrency, c.HandleTimeout = 16, time.Minute }
		w := r.start(a, testutil.Sleep(30*time.Second), records, long)
		time.Sleep(2 * time.Second)
		took, err := w.end()
		var broken *worker.DrainError
		if !errors.As(err, &broken) || broken.Interrupted < 12 || took > 6*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		if st := a.Status(); st != (limit.AdaptiveStatus{Limit: 12}) {
			t.Errorf("%+v", st)
		}
		w = r.start(a, testutil.Sleep(time.Second), records, long)
		r.settled("D", n, time.Minute)
		for _, c := range r.calls.Calls() {
			if c.Attempt != 1 {
				t.Errorf("message %d: attempt %d", c.Sequence, c.Attempt)
			}
		}
		w.ended()
	})
}

// Handlers that the handle timeout ends, that panic and that end their goroutine: each gives its place back, and they lower the limit.
func TestHandlersThatDoNotReturn(t *testing.T) {
	for name, h := range map[string]ackfloor.Handler{"timeout": testutil.Sleep(time.Minute), "panic": testutil.Panic("no"), "goexit": testutil.Goexit(),
		"a timeout that is not looked at": testutil.Stubborn(1100 * time.Millisecond)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 60
				r := newRig(t, n)
				a := adaptive(t, limit.AdaptiveConfig{Max: 10, Initial: 10})
				var bad atomic.Bool
				bad.Store(true)
				w := r.start(a, ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
					if bad.Load() {
						return errors.Join(h.Handle(ctx, m), ctx.Err())
					}
					return nil
				}), func(c *worker.Config) { c.Concurrency, c.MaxAttempts = 16, 1000 })
				time.Sleep(6 * time.Second)
				if st := a.Status(); st.Limit > 7 {
					t.Errorf("%+v", st)
				}
				bad.Store(false)
				r.settled("D", n, time.Minute)
				if st := a.Status(); st.Running+st.Waiting != 0 {
					t.Errorf("%+v", st)
				}
				w.ended()
			})
		})
	}
}

// A Pause under an Adaptive: it moves nothing, and places are free while it lasts.
func TestPauseAndAdaptive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 80
		r := newRig(t, n)
		a := adaptive(t, limit.AdaptiveConfig{Max: 8, Initial: 8})
		began := time.Now()
		w := r.start(a, ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
			if since := time.Since(began); since > time.Second && since < time.Minute {
				return ackfloor.Pause(5*time.Second, errDown)
			}
			return testutil.Sleep(400*time.Millisecond).Handle(ctx, m)
		}), func(c *worker.Config) { c.Concurrency = 16 })
		time.Sleep(30 * time.Second)
		if st := a.Status(); st.Limit != 8 || st.Running > 1 {
			t.Errorf("in the pause %+v", st)
		}
		r.settled("D", n, 2*time.Minute)
		if c := w.Status().Counts; c.Acked != n || c.Retried+c.LeasesLost != 0 {
			t.Errorf("%+v", c)
		}
		w.ended()
	})
}

// Two workers share one Adaptive: together they run no more than its limit, and neither starves.
func TestTwoRunnersShareAnAdaptive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		r := newRig(t, n)
		g := adaptive(t, limit.AdaptiveConfig{Max: 3, Initial: 3})
		a, b := r.startOn("D", g, testutil.Sleep(300*time.Millisecond)), r.startOn("E", g, testutil.Sleep(300*time.Millisecond))
		time.Sleep(5 * time.Second)
		if x, y := a.Status().Counts.Acked, b.Status().Counts.Acked; x < 20 || y < 20 {
			t.Errorf("after 5 s: %d and %d", x, y)
		}
		r.settled("D", n, time.Minute)
		r.settled("E", n, time.Minute)
		if most := r.calls.MaxConcurrent(); most != 3 {
			t.Errorf("%d at once", most)
		}
		a.ended()
		b.ended()
	})
}
