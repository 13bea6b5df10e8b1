package worker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

// gateFunc is a Gate.
type gateFunc func(ctx context.Context, m *ackfloor.Message) (func(error), error)

func (f gateFunc) Enter(ctx context.Context, m *ackfloor.Message) (func(error), error) {
	return f(ctx, m)
}

// slowGate lets one message through at a time, every pause.
func slowGate(pause time.Duration) Gate {
	var mu sync.Mutex
	next := time.Now()
	return gateFunc(func(ctx context.Context, _ *ackfloor.Message) (func(error), error) {
		mu.Lock()
		next = next.Add(pause)
		wait := time.Until(next)
		mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
			return nil, nil
		}
	})
}

// Messages wait at a gate for much longer than the lease and the handle timeout: they stay ours, their time begins behind the gate, and each is handled once.
func TestGateWaitsUnderLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 40)
		var over atomic.Int32
		h := ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
			if at, ok := ctx.Deadline(); !ok || time.Until(at) < 900*time.Millisecond || ctx.Err() != nil {
				over.Add(1)
			}
			return testutil.Sleep(800*time.Millisecond).Handle(ctx, m)
		})
		w := r.start(h, withLetters, func(c *Config) {
			c.Gate, c.HandleTimeout, c.Concurrency = slowGate(3*time.Second), time.Second, 4
		})
		r.floor(40, 3*time.Minute)
		r.onceEach(40)
		if over.Load() != 0 {
			t.Errorf("%d handlers had less than their time", over.Load())
		}
		if i := r.floor(40, time.Second); i.Delivered.Consumer != 40 {
			t.Errorf("%d deliveries of 40 messages", i.Delivered.Consumer)
		}
		w.ok(w.end())
	})
}

// A stop hands back what waits at a gate when the grace is over, and that is no failure.
func TestStopAtTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 40)
		w := r.start(testutil.Succeed(), withLetters, func(c *Config) {
			c.Gate, c.DrainTimeout, c.Concurrency = slowGate(time.Second), 5*time.Second, 8
		})
		time.Sleep(2500 * time.Millisecond)
		var broken *DrainError
		if err := w.end(); err != nil && !errors.As(err, &broken) {
			t.Errorf("Run returned %v", err)
		}
		if n := len(r.calls.Calls()); n < 3 || n > 9 || w.took > 8*time.Second {
			t.Errorf("%d handled, the stop took %v", n, w.took)
		}
		w = r.start(testutil.Succeed(), withLetters)
		r.floor(40, 10*time.Second)
		r.onceEach(40)
		for _, c := range r.calls.Calls() {
			if c.Attempt != 1 {
				t.Errorf("message %d: attempt %d", c.Sequence, c.Attempt)
			}
		}
		w.ok(w.end())
	})
}

// A gate's own error is a failure of the message, and leave hears of every outcome.
func TestGateErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 3)
		var mu sync.Mutex
		var left []error
		refused := 0
		gate := gateFunc(func(_ context.Context, m *ackfloor.Message) (func(error), error) {
			mu.Lock()
			defer mu.Unlock()
			if m.Sequence == 1 && m.Attempt == 1 {
				refused++
				return nil, errWork
			}
			return func(err error) {
				mu.Lock()
				defer mu.Unlock()
				left = append(left, err)
			}, nil
		})
		h := testutil.ByData(map[string]ackfloor.Handler{"1": ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			if m.Attempt == 1 {
				panic("no")
			}
			return nil
		})}, testutil.Succeed())
		w := r.start(h, withLetters, func(c *Config) { c.Gate, c.Concurrency = gate, 1 })
		r.floor(3, 10*time.Second)
		w.ok(w.end())
		mu.Lock()
		defer mu.Unlock()
		failed := 0
		for _, err := range left {
			if err != nil {
				failed++
			}
		}
		if refused != 1 || len(left) != 4 || failed != 1 || w.Status().Counts.Retried != 2 {
			t.Errorf("refused %d, left %v, retried %d", refused, left, w.Status().Counts.Retried)
		}
	})
}

// A handler's context tells the ack floor.
func TestFloorInContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 5)
		var last atomic.Uint64
		w := r.start(ackfloor.HandlerFunc(func(ctx context.Context, _ *ackfloor.Message) error {
			floor, _ := ackfloor.AckFloor(ctx)
			last.Store(floor)
			return nil
		}))
		r.floor(5, 5*time.Second)
		time.Sleep(lookAnyway + time.Second)
		s.Events(t, 1)
		r.floor(6, 5*time.Second)
		if last.Load() != 5 {
			t.Errorf("the floor was %d", last.Load())
		}
		w.ok(w.end())
	})
}
