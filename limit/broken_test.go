package limit

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
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
)

// faultyLimiter is one that panics, or answers nonsense, from a moment on.
type faultyLimiter struct {
	adaptivelimiter.AdaptiveLimiter[any]
	at     string // where it panics
	says   int    // what it says its limit is, 0: the truth
	panics atomic.Bool
}

func (f *faultyLimiter) fault(at string) {
	if f.at == at && f.panics.Load() {
		panic("a bug")
	}
}

func (f *faultyLimiter) Limit() int {
	f.fault("Limit")
	if f.says != 0 {
		return f.says
	}
	return f.AdaptiveLimiter.Limit()
}

func (f *faultyLimiter) TryAcquirePermit() (adaptivelimiter.Permit, bool) {
	f.fault("TryAcquirePermit")
	p, ok := f.AdaptiveLimiter.TryAcquirePermit()
	if !ok {
		return nil, false
	}
	return faultyPermit{p, f}, true
}

type faultyPermit struct {
	adaptivelimiter.Permit
	f *faultyLimiter
}

func (p faultyPermit) Record() {
	p.f.fault("Record")
	p.Permit.Record()
}

func (p faultyPermit) Drop() {
	p.f.fault("Drop")
	p.Permit.Drop()
}

func withLimiter(t *testing.T, f *faultyLimiter) *Adaptive {
	t.Helper()
	a, err := NewAdaptive(AdaptiveConfig{Min: 2, Max: 8, Initial: 2, Fixed: 3})
	if err != nil {
		t.Fatal(err)
	}
	f.AdaptiveLimiter = a.limiter
	a.limiter = f
	return a
}

// load has ten slots use a for a while, each call with the answers in turn. It returns how many ran at once at most, in its second half.
func load(t *testing.T, a *Adaptive, d time.Duration, answers ...error) (most int) {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	running := 0
	for i := range 10 {
		all.Go(func() {
			for n := i; time.Since(began) < d; n++ {
				leave, err := a.Enter(t.Context(), testutil.Message("events.x", nil))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if running++; time.Since(began) > d/2 {
					most = max(most, running)
				}
				mu.Unlock()
				time.Sleep(50 * time.Millisecond)
				mu.Lock()
				running--
				mu.Unlock()
				leave(answers[n%len(answers)])
			}
		})
	}
	all.Wait()
	return most
}

// A limiter that panics, wherever it does, is used no more: the fixed limit holds, nothing hangs, no place is lost, and the status tells.
func TestLimiterThatPanics(t *testing.T) {
	for _, at := range []string{"Limit", "TryAcquirePermit", "Record", "Drop"} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &faultyLimiter{at: at}
				a := withLimiter(t, f)
				time.AfterFunc(10*time.Second, func() { f.panics.Store(true) })
				if most := load(t, a, 40*time.Second, nil, nil, nil, ackfloor.Permanent(errors.New("bad"))); most != 3 {
					t.Errorf("%d at once, with the limit fixed at 3", most)
				}
				if st := a.Status(); st.Running+st.Waiting != 0 || st.Limit != 3 || !st.Fixed || st.Err == nil {
					t.Errorf("%+v", st)
				}
				a.UseFixed(false)
				if most := load(t, a, 40*time.Second, nil); most != 8 {
					t.Errorf("with a new limiter, %d at once", most)
				}
				if st := a.Status(); st.Fixed || st.Err != nil || st.Running != 0 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// Whatever a limiter says, the limit is within its bounds, and something always runs.
func TestLimiterThatLies(t *testing.T) {
	for says, want := range map[int]int{-1 << 63: 2, -5: 2, 1: 2, 5: 5, 1 << 62: 8} {
		synctest.Test(t, func(t *testing.T) {
			a := withLimiter(t, &faultyLimiter{says: says})
			if most := load(t, a, 20*time.Second, nil); most != want {
				t.Errorf("it says %d: %d at once, want %d", says, most, want)
			}
		})
	}
}

// Code of the user that panics while an answer is read: the panic goes through, and the place is free again.
func TestOverloadPanics(t *testing.T) {
	a, err := NewAdaptive(AdaptiveConfig{Max: 1, Overload: func(error) bool { panic("in Overload") }})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		leave, err := a.Enter(ctx, testutil.Message("events.x", nil))
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if recover() != "in Overload" {
					t.Error("it did not panic")
				}
			}()
			leave(errors.New("failed"))
		}()
	}
	if st := a.Status(); st.Running != 0 || st.Fixed {
		t.Errorf("%+v", st)
	}
}

// Who gives up in the moment in which its turn comes leaves the turn to the next.
func TestGivesUpInItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := NewAdaptive(AdaptiveConfig{Max: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- a.wait(ctx) }()
		synctest.Wait()
		go func() { second <- a.wait(t.Context()) }()
		synctest.Wait()
		a.mu.Lock()
		cancel(ackfloor.ErrStopping) // it has given up, and can't say so before
		a.running--
		a.wakeLocked() // it is called
		a.mu.Unlock()
		synctest.Wait()
		if err := <-first; err != ackfloor.ErrStopping {
			t.Error(err)
		}
		select {
		case err := <-second:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Errorf("the second waits for ever: %+v", a.Status())
			a.UseFixed(true) // so that it ends
		}
	})
}

// A key at whose gate somebody is stays, though by its last use it has rested.
func TestKeyInUseStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := ByKey(KeyConfig{Key: func(m *ackfloor.Message) string { return m.Subject }, Limit: 1, Burst: 1, Keys: 1})
		if err != nil {
			t.Fatal(err)
		}
		e, _ := k.find("a")
		time.Sleep(time.Hour)
		if other, wait := k.find("b"); other != nil || wait <= 0 {
			t.Errorf("another took its place, or would look at once for ever: %v, %v", other, wait)
		}
		if again, _ := k.find("a"); again != e {
			t.Error("it was forgotten")
		}
		k.end(e)
		k.end(e)
		if n := k.Keys(); n != 0 {
			t.Errorf("%d keys are remembered", n)
		}
	})
}

// How an answer is read: errors that come at once are no samples of latency, timeouts are.
func TestSign(t *testing.T) {
	late, cancel := context.WithTimeoutCause(t.Context(), 0, ackfloor.ErrHandleTimeout)
	defer cancel()
	stopped, stop := context.WithCancelCause(t.Context())
	stop(ackfloor.ErrStopping)
	failed := errors.New("failed")
	for _, tc := range []struct {
		ctx  context.Context
		err  error
		want sign
	}{
		{t.Context(), nil, good},
		{stopped, nil, good},
		{late, nil, good},
		{t.Context(), failed, refused},
		{t.Context(), context.Canceled, refused}, // a context of its own
		{t.Context(), context.DeadlineExceeded, slow},
		{late, failed, slow},
		{late, ackfloor.Permanent(failed), neutral},
		{stopped, failed, neutral},
		{stopped, context.DeadlineExceeded, neutral},
		{t.Context(), ackfloor.Permanent(context.DeadlineExceeded), neutral},
		{t.Context(), ackfloor.RetryAfter(time.Second, failed), neutral},
		{t.Context(), ackfloor.Pause(time.Second, failed), neutral},
	} {
		if got := (AdaptiveConfig{}).withDefaults().sign(tc.ctx, tc.err); got != tc.want {
			t.Errorf("%v, its context %v: %d, want %d", tc.err, tc.ctx.Err(), got, tc.want)
		}
	}
}
