package breaker_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/breaker"
	"github.com/ackfloor/ackfloor/testutil"
)

// OnChange may look at the state, and may panic: then the call has, nothing is stuck, and no change is lost.
func TestOnChange(t *testing.T) {
	for _, at := range []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Closed} {
		synctest.Test(t, func(t *testing.T) {
			var r *rig
			panics := true
			r = newRig(t, breaker.Config{Failures: 1, OnChange: func(c breaker.Change) {
				if got := r.b.State(); got != c.To {
					t.Errorf("told of %v, the state is %v", c.To, got)
				}
				if c.To == at && panics {
					panics = false
					panic("in OnChange")
				}
			}})
			panicked := 0
			try := func(err error) {
				defer func() {
					if recover() == "in OnChange" {
						panicked++
					}
				}()
				r.answer(err)
			}
			for range 5 {
				try(errDown)
				time.Sleep(10 * time.Second)
				try(nil)
				time.Sleep(10 * time.Second)
			}
			try(nil)
			r.is(breaker.Closed)
			if panicked != 1 {
				t.Errorf("panicked %d times at %v", panicked, at)
			}
			if n := len(r.changes); n < 12 || r.changes[n-1].To != breaker.Closed {
				t.Errorf("%v: %d changes, the last %+v", at, n, r.changes[n-1])
			}
		})
	}
}

// A hook that takes long is not called again meanwhile, and nobody waits for it but the call that made the change.
func TestOnChangeOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside, told atomic.Int64
		r := newRig(t, breaker.Config{Failures: 1, OnChange: func(c breaker.Change) {
			if inside.Add(1) > 1 {
				t.Error("called twice at once")
			}
			if told.Add(1) == 1 {
				time.Sleep(15 * time.Second)
			}
			inside.Add(-1)
		}})
		go r.fail(1)
		time.Sleep(10 * time.Second)
		r.answer(nil)
		r.is(breaker.Closed)
		if n := told.Load(); n != 1 {
			t.Errorf("told %d times", n)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		r.saw("open 10s", "half-open", "closed")
	})
}

// It panics while a trial's context ends: that is in no handler's goroutine, and must not end the process.
func TestOnChangePanicsBehindAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := 0
		r := newRig(t, breaker.Config{Failures: 1, OnChange: func(c breaker.Change) {
			if c.To == breaker.Open {
				if opened++; opened == 2 {
					panic("in OnChange")
				}
			}
		}})
		r.fail(1)
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		hanging := r.begin(ctx)
		cancel()
		synctest.Wait()
		r.is(breaker.Open)
		hanging(nil)
		time.Sleep(10 * time.Second)
		r.answer(nil)
		r.is(breaker.Closed)
		r.saw("open 10s", "half-open", "open 10s", "half-open", "closed")
	})
}

// A hundred goroutines, everything at once: no change is told twice or out of order, no more trials pass than may, the outage's end is
// seen. For the race detector too.
func TestHundredGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, breaker.Config{Failures: 3, Delay: 100 * time.Millisecond, MaxDelay: 300 * time.Millisecond, Successes: 2})
		var down atomic.Bool
		var all sync.WaitGroup
		stop := time.Now().Add(time.Minute)
		for i := range 100 {
			all.Go(func() {
				for n := 0; time.Now().Before(stop); n++ {
					ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, ackfloor.ErrHandleTimeout)
					goexit := make(chan struct{})
					go func() {
						defer close(goexit)
						defer func() { _ = recover() }()
						err := r.doWith(ctx, r.next(), func(ctx context.Context) error {
							time.Sleep(time.Duration((i*7+n*13)%250) * time.Millisecond)
							switch {
							case !down.Load():
								return nil
							case (i+n)%11 == 0:
								panic("worse")
							case (i+n)%13 == 0:
								runtime.Goexit()
							}
							return errDown
						})
						if d := paused(err); d >= 0 {
							time.Sleep(d)
						}
					}()
					<-goexit
					cancel()
				}
			})
		}
		for i := range 20 {
			time.Sleep(time.Duration(1+i%3) * time.Second)
			down.Store(i%2 == 0)
		}
		all.Wait()
		down.Store(false)
		time.Sleep(time.Second)
		for range 2 {
			if err := r.answer(nil); err != nil {
				t.Errorf("well again, and %v", err)
			}
		}
		r.is(breaker.Closed)
		last := breaker.Closed
		legal := map[[2]breaker.State]int{
			{breaker.Closed, breaker.Open}:     0,
			{breaker.Open, breaker.HalfOpen}:   0,
			{breaker.HalfOpen, breaker.Open}:   0,
			{breaker.HalfOpen, breaker.Closed}: 0,
		}
		for _, c := range r.changes {
			n, ok := legal[[2]breaker.State{c.From, c.To}]
			if !ok || c.From != last {
				t.Errorf("after %v came %v to %v", last, c.From, c.To)
			}
			legal[[2]breaker.State{c.From, c.To}] = n + 1
			last = c.To
		}
		for k, n := range legal {
			if n < 5 {
				t.Errorf("%v to %v came only %d times", k[0], k[1], n)
			}
		}
	})
}

// One breaker around several handlers: what the one finds out the other learns.
func TestSharedAndNested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := breaker.New(breaker.Config{Failures: 1})
		if err != nil {
			t.Fatal(err)
		}
		outer, err := breaker.New(breaker.Config{Failures: 1})
		if err != nil {
			t.Fatal(err)
		}
		m := testutil.Message("events.order", nil)
		if err := db.Wrap(testutil.Fail(-1, errDown)).Handle(t.Context(), m); paused(err) != 10*time.Second {
			t.Error(err)
		}
		// Refused by the inner one; the outer one, which is closed, takes that for the handler's own Pause.
		time.Sleep(time.Second)
		h := ackfloor.Chain(testutil.Succeed(), outer.Wrap, db.Wrap)
		for range 3 {
			if d, ok := refused(h.Handle(t.Context(), m)); !ok || d != 9*time.Second {
				t.Errorf("%v, %v", d, ok)
			}
		}
		if outer.State() != breaker.Closed || db.State() != breaker.Open {
			t.Errorf("outer %v, inner %v", outer.State(), db.State())
		}
	})
}
