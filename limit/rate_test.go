package limit_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/limit"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"golang.org/x/time/rate"
)

// Over six minutes the rate holds in every stretch, is used up, and no message is delivered twice, though each waits for longer than its lease and its handle timeout.
func TestRateHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 183
		r := newRig(t, n)
		w := r.start(must[limit.Gate](t)(limit.Rate(rate.NewLimiter(0.5, 3))), testutil.Sleep(900*time.Millisecond), func(c *worker.Config) { c.Concurrency = 8 })
		r.once(r.settled("D", n, 15*time.Minute), n)
		starts := r.starts()
		if took := starts[n-1].Sub(starts[0]); took < 360*time.Second || took > 361*time.Second {
			t.Errorf("%d at one in 2 s took %v", n, took)
		}
		holds(t, starts, 0.5, 3)
		if w.Status().Counts.LeasesLost != 0 {
			t.Error("leases were lost")
		}
		w.ended()
	})
}

// After an hour without work no more than the burst goes at once, and then the rate holds.
func TestRateAfterAnIdleHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 20)
		w := r.start(must[limit.Gate](t)(limit.Rate(rate.NewLimiter(10, 5))), testutil.Succeed(), func(c *worker.Config) { c.Concurrency = 16 })
		time.Sleep(time.Hour)
		began := time.Now()
		r.s.Events(t, 200)
		r.once(r.settled("D", 220, time.Minute), 220)
		starts := r.starts()
		holds(t, starts, 10, 5)
		if n := within(starts, began, time.Second); n < 14 || n > 15 {
			t.Errorf("%d in the first second after it", n)
		}
		w.ended()
	})
}

// Two workers, of different consumers, on one limiter: together they are within it, and none starves.
func TestTwoRunnersShareALimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 150
		r := newRig(t, n)
		g := must[limit.Gate](t)(limit.Rate(rate.NewLimiter(10, 2)))
		a, b := r.startOn("D", g, testutil.Succeed()), r.startOn("E", g, testutil.Succeed())
		time.Sleep(5 * time.Second)
		if x, y := a.Status().Counts.Acked, b.Status().Counts.Acked; x < 20 || y < 20 {
			t.Errorf("after 5 s: %d and %d", x, y)
		}
		r.settled("D", n, 2*time.Minute)
		r.settled("E", n, 2*time.Minute)
		holds(t, r.starts(), 10, 2)
		if got := len(r.calls.Calls()); got != 2*n {
			t.Errorf("%d calls", got)
		}
		a.ended()
		b.ended()
	})
}

// A message that comes back, after a failure, passes the gate again.
func TestRedeliveriesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 40
		r := newRig(t, n)
		w := r.start(must[limit.Gate](t)(limit.Rate(rate.NewLimiter(2, 1))), testutil.Fail(2, errDown))
		r.settled("D", n, 5*time.Minute)
		holds(t, r.starts(), 2, 1)
		if got, c := len(r.calls.Calls()), w.Status().Counts; got != 3*n || c.Acked != n || c.Retried != 2*n || c.DeadLettered != 0 {
			t.Errorf("%d calls, %+v", got, c)
		}
		w.ended()
	})
}

// A stop lets what waits pass while the grace lasts, and hands back the rest at its end, none of which counts as a failure.
func TestStopAtARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 40
		r := newRig(t, n)
		l := rate.NewLimiter(1, 1)
		w := r.start(must[limit.Gate](t)(limit.Rate(l)), testutil.Succeed(), records, func(c *worker.Config) { c.Concurrency = 16 })
		time.Sleep(2500 * time.Millisecond)
		took, err := w.end()
		var broken *worker.DrainError
		if err != nil && !errors.As(err, &broken) {
			t.Error(err)
		}
		if took < 5*time.Second || took > 6*time.Second {
			t.Errorf("the stop took %v of a grace of 5 s", took)
		}
		if c := w.Status().Counts; c.Acked < 7 || c.Acked > 9 || c.Retried+c.DeadLettered+c.Terminated != 0 {
			t.Errorf("%+v", c)
		}
		if tokens := l.Tokens(); tokens < 0 {
			t.Errorf("those who were sent away have left a debt of %v", tokens)
		}
		w = r.start(nil, testutil.Succeed(), records)
		r.settled("D", n, 30*time.Second)
		for _, c := range r.calls.Calls() {
			if c.Attempt != 1 {
				t.Errorf("message %d: attempt %d", c.Sequence, c.Attempt)
			}
		}
		if got := len(r.calls.Calls()); got != n {
			t.Errorf("%d calls of %d messages", got, n)
		}
		w.ended()
	})
}

// A handler's Pause and a gate: nothing is lost or charged, and the rate holds.
func TestPauseAndRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 60
		r := newRig(t, n)
		began := time.Now()
		h := ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			if since := time.Since(began); since > 10*time.Second && since < 70*time.Second {
				return ackfloor.Pause(5*time.Second, errDown)
			}
			return nil
		})
		w := r.start(must[limit.Gate](t)(limit.Rate(rate.NewLimiter(2, 2))), h, func(c *worker.Config) { c.Concurrency = 8 })
		i := r.settled("D", n, 5*time.Minute)
		starts := r.starts()
		holds(t, starts, 2, 2)
		if c := w.Status().Counts; c.Acked != n || c.Retried+c.DeadLettered+c.LeasesLost != 0 || i.Delivered.Consumer != n {
			t.Errorf("%d deliveries, %+v", i.Delivered.Consumer, c)
		}
		out := within(starts, began.Add(10*time.Second), 59*time.Second)
		if out < 10 || out > 24 { // those at the gate, and one every 5 s
			t.Errorf("%d calls in the pause", out)
		}
		w.ended()
	})
}

// A limiter that is set to nothing while it is used: the worker pauses, and goes on when it is set to something.
func TestRateSetToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		r := newRig(t, n)
		l := rate.NewLimiter(10, 1)
		w := r.start(must[limit.Gate](t)(limit.Rate(l)), testutil.Succeed())
		for _, nothing := range []func(){func() { l.SetLimit(0) }, func() { l.SetBurst(0) }} {
			time.Sleep(2 * time.Second)
			nothing()
			time.Sleep(time.Second) // for those that wait already
			before := len(r.calls.Calls())
			time.Sleep(time.Minute)
			if st := w.Status(); len(r.calls.Calls()) != before || !strings.Contains(st.Paused, "nothing may pass") {
				t.Errorf("%d calls, then %d; paused: %q", before, len(r.calls.Calls()), st.Paused)
			}
			l.SetLimit(10)
			l.SetBurst(1)
		}
		r.once(r.settled("D", n, time.Minute), n)
		if c := w.Status().Counts; c.Retried != 0 {
			t.Errorf("%+v", c)
		}
		w.ended()
	})
}

// By bytes: the rate holds for what the messages weigh, and one that is heavier than the burst is given up at once.
func TestRateByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		js := r.s.JetStream(t)
		var total int
		for i := range 60 {
			size := 100 * (1 + i%10)
			if i == 30 {
				size = 1001
			} else {
				total += size
			}
			if _, err := js.Publish(t.Context(), "events.x", make([]byte, size)); err != nil {
				t.Fatal(err)
			}
		}
		w := r.start(must[limit.Gate](t)(limit.RateBy(rate.NewLimiter(500, 1000), limit.Bytes)), testutil.Succeed())
		r.settled("D", 60, 5*time.Minute)
		starts := r.starts()
		if took, least := starts[58].Sub(starts[0]), time.Duration(total-1100)*time.Second/500; took < least || took > least+3*time.Second {
			t.Errorf("%d bytes at 500 a second took %v", total, took)
		}
		if c := w.Status().Counts; c.Acked != 59 || c.Terminated != 1 || c.Retried != 0 || r.calls.Count(31) != 0 {
			t.Errorf("%+v, the heavy one was handled %d times", c, r.calls.Count(31))
		}
		w.ended()
	})
}

// What a gate answers by itself.
func TestRateAnswers(t *testing.T) {
	m := testutil.Message("events.x", "12345")
	for _, tc := range []struct {
		name   string
		l      *rate.Limiter
		weight func(*ackfloor.Message) int
		check  func(error) bool
	}{
		{"no limit", rate.NewLimiter(rate.Inf, 0), limit.Bytes, func(err error) bool { return err == nil }},
		{"too heavy", rate.NewLimiter(1, 4), limit.Bytes, func(err error) bool {
			heavy, ok := errors.AsType[*limit.WeightError](err)
			_, permanent := errors.AsType[*ackfloor.PermanentError](err)
			return ok && permanent && *heavy == limit.WeightError{Weight: 5, Burst: 4}
		}},
		{"weightless", rate.NewLimiter(1e-9, 1), func(*ackfloor.Message) int { return -1 }, func(err error) bool { return err == nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := must[limit.Gate](t)(limit.RateBy(tc.l, tc.weight))
			for range 3 {
				if leave, err := g.Enter(t.Context(), m); leave != nil || !tc.check(err) {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

// A wait without an end is an error, not a hang; and it takes nothing from those who come later.
func TestEndlessWait(t *testing.T) {
	l := rate.NewLimiter(1e-12, 1)
	g := must[limit.Gate](t)(limit.Rate(l))
	m := testutil.Message("events.x", nil)
	if _, err := g.Enter(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := g.Enter(t.Context(), m); err == nil || !strings.Contains(err.Error(), "100 years") {
			t.Errorf("%v", err)
		}
	}
	l.SetLimit(1000)
	time.Sleep(5 * time.Millisecond)
	if _, err := g.Enter(t.Context(), m); err != nil {
		t.Error(err)
	}
}

// The end of the context ends the wait at once, with its cause, and what was reserved is given back.
func TestRateContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rate.NewLimiter(1, 1)
		g := must[limit.Gate](t)(limit.Rate(l))
		m := testutil.Message("events.x", nil)
		if _, err := g.Enter(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second/2, func() { cancel(ackfloor.ErrStopping) })
		began := time.Now()
		if _, err := g.Enter(ctx, m); err != ackfloor.ErrStopping || time.Since(began) != time.Second/2 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.Sleep(time.Second / 2)
		if _, err := g.Enter(t.Context(), m); err != nil || time.Since(began) != time.Second {
			t.Errorf("the next passed after %v (%v)", time.Since(began), err)
		}
	})
}

// What can never pass is refused when it is made, with all faults.
func TestRateFaults(t *testing.T) {
	for _, tc := range []struct {
		l    *rate.Limiter
		want []string
	}{
		{nil, []string{"nil"}},
		{rate.NewLimiter(0, 1), []string{"Limit is 0"}},
		{rate.NewLimiter(rate.Limit(math.NaN()), 1), []string{"Limit is NaN"}},
		{rate.NewLimiter(1, 0), []string{"Burst is 0"}},
		{rate.NewLimiter(-1, -1), []string{"Limit is -1", "Burst is -1"}},
	} {
		_, err := limit.Rate(tc.l)
		faulty(t, err, tc.want...)
	}
}

// faulty checks that err is a *ConfigError with these problems.
func faulty(t *testing.T, err error, want ...string) {
	t.Helper()
	wrong, ok := errors.AsType[*limit.ConfigError](err)
	if !ok || len(wrong.Problems) != len(want) || wrong.ExitCode() != 78 {
		t.Errorf("%v, want %q", err, want)
		return
	}
	for i, w := range want {
		if !strings.Contains(wrong.Problems[i], w) || !strings.Contains(err.Error(), w) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
