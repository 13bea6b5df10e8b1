package limit_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/limit"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"golang.org/x/time/rate"
)

// gateFunc is a Gate.
type gateFunc func(ctx context.Context, m *ackfloor.Message) (func(error), error)

func (f gateFunc) Enter(ctx context.Context, m *ackfloor.Message) (func(error), error) {
	return f(ctx, m)
}

// A message passes all gates in their order and leaves them in reverse; what one of them refuses has left those before.
func TestAll(t *testing.T) {
	var seen []string
	gate := func(name string, err error) limit.Gate {
		return gateFunc(func(context.Context, *ackfloor.Message) (func(error), error) {
			seen = append(seen, name)
			if name == "panics" {
				panic("in Enter")
			}
			return func(left error) {
				seen = append(seen, "left "+name)
				if (left == nil) != (len(seen) == 0 || seen[0] == "fine") {
					t.Errorf("%s left with %v", name, left)
				}
				if name == "panics later" {
					panic("in leave")
				}
			}, err
		})
	}
	free := must[limit.Gate](t)(limit.Rate(rate.NewLimiter(rate.Inf, 0)))
	for _, tc := range []struct {
		gates []limit.Gate
		want  []string
	}{
		{nil, nil},
		{[]limit.Gate{free, free}, nil},
		{[]limit.Gate{gate("fine", nil), free}, []string{"fine", "left fine"}},
		{[]limit.Gate{gate("fine", nil), gate("b", nil), free, gate("c", nil)}, []string{"fine", "b", "c", "left c", "left b", "left fine"}},
		{[]limit.Gate{gate("a", nil), gate("refuses", errDown), gate("c", nil)}, []string{"a", "refuses", "left a"}},
		{[]limit.Gate{gate("a", nil), gate("panics", nil), gate("c", nil)}, []string{"a", "panics", "left a"}},
		{[]limit.Gate{gate("fine", nil), gate("panics later", nil)}, []string{"fine", "panics later", "left panics later", "left fine"}},
	} {
		seen = nil
		g := must[limit.Gate](t)(limit.All(tc.gates...))
		func() {
			defer func() { _ = recover() }()
			leave, err := g.Enter(t.Context(), testutil.Message("events.x", nil))
			if leave != nil {
				leave(nil)
			}
			if (err != nil) != slices.Contains(tc.want, "refuses") {
				t.Errorf("%v: %v", tc.want, err)
			}
		}()
		if !slices.Equal(seen, tc.want) {
			t.Errorf("%q, want %q", seen, tc.want)
		}
	}
}

// A gate behind an Adaptive would count as the handler's time, so it can't be.
func TestAllFaults(t *testing.T) {
	free := must[limit.Gate](t)(limit.Rate(rate.NewLimiter(rate.Inf, 0)))
	a := must[*limit.Adaptive](t)(limit.NewAdaptive(limit.AdaptiveConfig{}))
	_, err := limit.All(a, nil, (*limit.Adaptive)(nil), free)
	faulty(t, err, "gate 1 of 4 is an Adaptive", "gate 2 of 4 is nil", "gate 3 of 4 is nil")
	if _, err := limit.All(free, a); err != nil {
		t.Error(err)
	}
}

// A rate, a limit by key and an Adaptive in a row, under a worker which is stopped half-way: the rates hold, no place is left taken, and nothing is charged.
func TestAllUnderAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 120
		r := newRig(t, n)
		a := must[*limit.Adaptive](t)(limit.NewAdaptive(limit.AdaptiveConfig{Max: 2, Initial: 2}))
		g := must[limit.Gate](t)(limit.All(
			must[limit.Gate](t)(limit.Rate(rate.NewLimiter(4, 4))),
			must[*limit.Keyed](t)(limit.ByKey(limit.KeyConfig{Key: func(m *ackfloor.Message) string { return string(m.Data[len(m.Data)-1:]) }, Limit: 2, Burst: 1})),
			a))
		w := r.start(g, testutil.Sleep(300*time.Millisecond), records, func(c *worker.Config) { c.Concurrency = 16 })
		time.Sleep(10 * time.Second)
		var broken *worker.DrainError
		if _, err := w.end(); err != nil && !errors.As(err, &broken) {
			t.Error(err)
		}
		if st := a.Status(); st.Running+st.Waiting != 0 {
			t.Errorf("after the stop %+v", st)
		}
		holds(t, r.starts(), 4, 6) // two more may have waited at the last gate
		w = r.start(g, testutil.Sleep(300*time.Millisecond), records, func(c *worker.Config) { c.Concurrency = 16 })
		r.settled("D", n, 2*time.Minute)
		if most := r.calls.MaxConcurrent(); most > 2 {
			t.Errorf("%d at once", most)
		}
		for _, c := range r.calls.Calls() {
			if c.Attempt != 1 {
				t.Errorf("message %d: attempt %d", c.Sequence, c.Attempt)
			}
		}
		w.ended()
	})
}
