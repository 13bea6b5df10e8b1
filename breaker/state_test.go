package breaker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor/breaker"
)

// Calls that were under way when it opened: their failures are not charged, and whatever they answer, they neither close it nor count
// as trials, nor give a trial away.
func TestUnderWayWhenItOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, breaker.Config{Failures: 2, Successes: 2})
		var old []func(error) error
		for range 12 {
			old = append(old, r.begin(t.Context()))
		}
		end := func(err error) error {
			e := old[0]
			old = old[1:]
			return e(err)
		}
		end(errDown)
		end(errDown)
		r.is(breaker.Open)
		time.Sleep(3 * time.Second)
		if err := end(errDown); paused(err) != 7*time.Second || !errors.Is(err, errDown) {
			t.Errorf("a failure while open: %v", err)
		}
		if err := end(nil); err != nil {
			t.Errorf("a success while open: %v", err)
		}
		r.is(breaker.Open)

		time.Sleep(7 * time.Second)
		trials := []func(error) error{r.begin(t.Context()), r.begin(t.Context())}
		r.is(breaker.HalfOpen)
		r.refuses(250 * time.Millisecond)
		for range 2 {
			if err := end(nil); err != nil {
				t.Errorf("a success while half-open: %v", err)
			}
		}
		r.is(breaker.HalfOpen)            // two old successes don't close it
		r.refuses(250 * time.Millisecond) // and give no trial back
		if err := end(errDown); paused(err) != 250*time.Millisecond {
			t.Errorf("a failure while half-open: %v", err)
		}
		r.is(breaker.HalfOpen) // an old failure doesn't open it
		if err := trials[0](nil); err != nil {
			t.Errorf("a trial: %v", err)
		}
		r.is(breaker.HalfOpen)
		if err := trials[1](nil); err != nil {
			t.Errorf("a trial: %v", err)
		}
		r.is(breaker.Closed)

		for range 3 { // more than enough to open it, were they of this time
			if err := end(errDown); paused(err) != 100*time.Millisecond || !errors.Is(err, errDown) {
				t.Errorf("an old failure after it closed: %v", err)
			}
		}
		r.is(breaker.Closed)
		r.fail(1)
		end(nil) // breaks no row
		r.fail(1)
		r.is(breaker.Open)
		end(nil)
		r.saw("open 10s", "half-open", "closed", "open 10s")
	})
}

// A trial that was overtaken by another's failure counts for nothing in the next half-open state.
func TestTrialOfAnEarlierTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, breaker.Config{Failures: 1, Successes: 2})
		r.fail(1)
		time.Sleep(10 * time.Second)
		slow, slower, quick := r.begin(t.Context()), (func(error) error)(nil), r.begin(t.Context())
		if err := quick(errDown); paused(err) != 10*time.Second {
			t.Errorf("the quick one: %v", err)
		}
		time.Sleep(10 * time.Second)
		slower = r.begin(t.Context())
		if err := slow(nil); err != nil {
			t.Error(err)
		}
		r.is(breaker.HalfOpen)
		slower(nil)
		r.is(breaker.HalfOpen) // that was the first of two
		r.answer(nil)
		r.is(breaker.Closed)
	})
}

// Half-open, as many calls pass at once as successes close it, whoever comes.
func TestTrialsAtOnce(t *testing.T) {
	for _, successes := range []int{1, 3, 10} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, breaker.Config{Failures: 1, Successes: successes})
			r.fail(1)
			before := r.called()
			time.Sleep(10 * time.Second)
			var all sync.WaitGroup
			var refusals atomic.Int64
			for range 100 {
				all.Go(func() {
					err := r.do(func(context.Context) error { time.Sleep(time.Second); return nil })
					if d, ok := refused(err); ok && d == 250*time.Millisecond {
						refusals.Add(1)
					} else if err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			if n := r.called() - before; n != successes {
				t.Errorf("%d trials at once, want %d", n, successes)
			}
			all.Wait()
			if n := int(refusals.Load()); n != 100-successes {
				t.Errorf("%d were refused", n)
			}
			r.is(breaker.Closed)
			r.saw("open 10s", "half-open", "closed")
		})
	}
}

// With three successes needed, one after the other: each is a trial; and a failure among them opens it.
func TestTrialsOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, breaker.Config{Failures: 1, Successes: 3})
		r.fail(1)
		time.Sleep(10 * time.Second)
		r.answer(nil)
		r.answer(nil)
		r.is(breaker.HalfOpen)
		r.fail(1)
		r.is(breaker.Open)
		time.Sleep(10 * time.Second)
		for range 3 {
			r.is([]breaker.State{breaker.Open, breaker.HalfOpen, breaker.HalfOpen}[r.called()-4])
			r.answer(nil)
		}
		r.is(breaker.Closed)
	})
}
