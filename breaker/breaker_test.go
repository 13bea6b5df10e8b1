package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/breaker"
)

// The whole way round, with the defaults.
func TestOpensTriesAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, breaker.Config{})
		r.fail(4)
		r.answer(nil) // the row is broken
		for i := range 4 {
			if err := r.answer(errDown); err != errDown {
				t.Fatalf("failure %d, still closed: %v", i+1, err)
			}
		}
		r.is(breaker.Closed)
		if err := r.answer(errDown); paused(err) != 10*time.Second || !errors.Is(err, errDown) {
			t.Errorf("the failure that opens it: %v", err)
		}
		r.is(breaker.Open)
		r.refuses(10 * time.Second)
		time.Sleep(4 * time.Second)
		r.refuses(6 * time.Second)
		if err := r.answer(nil); err == nil || err.Error() != "breaker: open: the database is down" || errors.Is(err, errDown) {
			t.Errorf("a refusal says %q, and is another message's error: %v", err, errors.Is(err, errDown))
		}
		time.Sleep(6*time.Second - 1)
		r.refuses(100 * time.Millisecond) // a nanosecond, but no Pause is shorter
		time.Sleep(time.Nanosecond)
		r.is(breaker.Open) // until somebody comes
		if err := r.answer(errDown); paused(err) != 10*time.Second || !errors.Is(err, errDown) {
			t.Errorf("the trial failed: %v", err)
		}
		r.refuses(10 * time.Second)
		time.Sleep(10 * time.Second)
		if err := r.answer(nil); err != nil {
			t.Errorf("the trial: %v", err)
		}
		r.is(breaker.Closed)
		r.fail(4)
		r.is(breaker.Closed)
		r.saw("open 10s", "half-open", "open 10s", "half-open", "closed")
	})
}

// Each failed trial doubles the delay, up to the longest; a close starts again from the first.
func TestDelayGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, breaker.Config{Failures: 1, Delay: time.Second, MaxDelay: 5 * time.Second})
		for range 2 {
			for i, want := range []time.Duration{1, 2, 4, 5, 5} {
				want *= time.Second
				if err := r.answer(errDown); paused(err) != want {
					t.Fatalf("opened for the %d. time: %v, want %v", i+1, paused(err), want)
				}
				r.refuses(want)
				time.Sleep(want - time.Second/2)
				r.refuses(time.Second / 2)
				time.Sleep(time.Second / 2)
			}
			if err := r.answer(nil); err != nil {
				t.Fatal(err)
			}
			r.is(breaker.Closed)
		}
	})
}

// However often it opens, the delay does not overflow.
func TestDelayStaysAtTheLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, breaker.Config{Failures: 1, Delay: 100 * time.Millisecond, MaxDelay: time.Hour})
		for i := range 100 {
			if d := paused(r.fail(1)); d < 100*time.Millisecond || d > time.Hour || i > 20 && d != time.Hour {
				t.Fatalf("opened %d times: %v", i+1, d)
			}
			time.Sleep(time.Hour)
		}
	})
}

// The four ways to count. A step is "f" a failure, "s" a success, "." a second; the last step of each must open it, and no other.
func TestWhatOpens(t *testing.T) {
	for _, tc := range []struct {
		cfg   breaker.Config
		steps string
	}{
		{breaker.Config{}, "fffff"},
		{breaker.Config{Failures: 1}, "sssf"},
		{breaker.Config{Failures: 2}, "fsfsfsf.......f"},
		{breaker.Config{Failures: 2, Calls: 3}, "fssfssfsf"},
		{breaker.Config{Failures: 2, Calls: 2}, "fsfsff"},
		{breaker.Config{Failures: 3, Window: 10 * time.Second}, "ff..........." + "f.s.f..sssss.f"},
		{breaker.Config{Ratio: 0.5, Calls: 4, Window: 10 * time.Second}, "fffs"},
		{breaker.Config{Ratio: 0.5, Calls: 4, Window: 10 * time.Second}, "fff..........." + "sssff" + "f"},
		{breaker.Config{Ratio: 1, Calls: 3, Window: 10 * time.Second}, "sff..........." + "fff"},
		{breaker.Config{Ratio: 0.01, Calls: 100, Window: 10 * time.Second}, "f" + strings.Repeat("s", 99)},
	} {
		t.Run(fmt.Sprintf("%d of %d, %v, %v", tc.cfg.Failures, tc.cfg.Calls, tc.cfg.Ratio, tc.cfg.Window), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, tc.cfg)
				for i, step := range tc.steps {
					r.is(breaker.Closed)
					switch step {
					case 'f':
						r.answer(errDown)
					case 's':
						r.answer(nil)
					case '.':
						time.Sleep(time.Second)
					}
					if open := r.b.State() == breaker.Open; open != (i == len(tc.steps)-1) {
						t.Fatalf("open %v after %q of %q", open, tc.steps[:i+1], tc.steps)
					}
				}
			})
		})
	}
}

// What an answer counts as, closed and as a trial, and that it comes back as it is where nothing opens.
func TestWhatCounts(t *testing.T) {
	stopping, stop := context.WithCancelCause(t.Context())
	stop(fmt.Errorf("drain: %w", ackfloor.ErrStopping))
	lost, lose := context.WithCancelCause(t.Context())
	lose(ackfloor.ErrLeaseLost)
	late, over := context.WithCancelCause(t.Context())
	over(ackfloor.ErrHandleTimeout)
	errRow := errors.New("no such row")
	counts := func(err error) bool { return breaker.Outage(err) && !errors.Is(err, errRow) }
	for _, tc := range []struct {
		name           string
		ctx            context.Context
		err            error
		success, trial bool // closed: it breaks a row; as a trial: it closes
		failure        bool
	}{
		{name: "nil", success: true, trial: true},
		{name: "an error", err: errDown, failure: true},
		{name: "permanent", err: fmt.Errorf("bad: %w", ackfloor.Permanent(errDown)), success: true, trial: true},
		{name: "retry after", err: errors.Join(errDown, ackfloor.RetryAfter(time.Hour, errDown)), success: true, trial: true},
		{name: "not counted", err: fmt.Errorf("read: %w", errRow), success: true, trial: true},
		{name: "its own pause", err: fmt.Errorf("send: %w", ackfloor.Pause(time.Minute, errDown))},
		{name: "interrupted by a stop", ctx: stopping, err: errDown},
		{name: "interrupted by a lost lease", ctx: lost, err: errDown},
		{name: "stopping, but done", ctx: stopping, success: true},
		{name: "timed out", ctx: late, err: context.DeadlineExceeded, failure: true},
		{name: "a context of its own ended", err: context.Canceled, failure: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := tc.ctx
				if ctx == nil {
					ctx = t.Context()
				}
				answer := func(r *rig) error {
					return r.doWith(ctx, r.next(), func(context.Context) error { return tc.err })
				}
				r := newRig(t, breaker.Config{Failures: 3, Counts: counts})
				r.fail(1)
				for range 2 {
					if err := answer(r); err != tc.err && !tc.failure {
						t.Errorf("closed: it came back as %v", err)
					}
				}
				if opened := r.b.State() == breaker.Open; opened != tc.failure {
					t.Errorf("closed: counted as a failure: %v", opened)
				}
				if r.fail(2); (r.b.State() == breaker.Closed) != tc.success {
					t.Errorf("closed: counted as a success: %v", !tc.success)
				}
				if tc.ctx == nil { // else see TestInterruptedTrial
					r = newRig(t, breaker.Config{Failures: 1, Counts: counts})
					r.fail(1)
					time.Sleep(10 * time.Second)
					if err := r.do(func(context.Context) error { return tc.err }); err != tc.err && !tc.failure {
						t.Errorf("as a trial: it came back as %v", err)
					}
					if (r.b.State() == breaker.Closed) != tc.trial {
						t.Errorf("as a trial: %v", r.b.State())
					}
				}
			})
		})
	}
}

// Interrupted as a trial: nothing is proved, so it opens again, and the answer goes through as it is.
func TestInterruptedTrial(t *testing.T) {
	for _, cause := range []error{ackfloor.ErrStopping, ackfloor.ErrLeaseLost} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, breaker.Config{Failures: 1})
			r.fail(1)
			time.Sleep(10 * time.Second)
			ctx, end := context.WithCancelCause(t.Context())
			err := r.doWith(ctx, r.next(), func(ctx context.Context) error {
				end(cause)
				return context.Cause(ctx)
			})
			if err != cause {
				t.Errorf("it came back as %v", err)
			}
			synctest.Wait()
			r.is(breaker.Open)
			time.Sleep(10 * time.Second)
			r.answer(nil)
			r.saw("open 10s", "half-open", "open 10s", "half-open", "closed")
		})
	}
}

// An error that is Permanent and counts: its own message is given up, others are not.
func TestPermanentThatCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, breaker.Config{Failures: 1, Counts: func(error) bool { return true }})
		isPermanent := func(err error) bool { _, ok := errors.AsType[*ackfloor.PermanentError](err); return ok }
		if err := r.answer(ackfloor.Permanent(errDown)); !isPermanent(err) {
			t.Errorf("its own: %v", err)
		}
		if err := r.answer(nil); paused(err) != 10*time.Second || isPermanent(err) {
			t.Errorf("another's: %v", err)
		}
	})
}
