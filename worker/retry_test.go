package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/retry"
	"github.com/ackfloor/ackfloor/testutil"
)

// An outage of 700 ms does not use up the attempts: with the defaults the message succeeds later, its attempts spaced by the policy.
func TestShortOutageIsOutlived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 20)
		defaults := func(c *Config) { *c = Config{Stream: c.Stream, Consumer: c.Consumer, Logger: c.Logger} }
		began := time.Now()
		w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			if time.Since(began) < 700*time.Millisecond {
				return errors.New("the database is away")
			}
			return nil
		}), defaults)
		r.floor(20, 10*time.Second)
		w.ok(w.end())
		for seq := uint64(1); seq <= 20; seq++ {
			starts := r.startTimes(seq)
			if len(starts) != 2 {
				t.Fatalf("sequence %d had %d attempts", seq, len(starts))
			}
			if d := starts[1].Sub(starts[0]); d < time.Second || d > 2*time.Second+100*time.Millisecond {
				t.Errorf("sequence %d was tried again after %v; the policy says 1 to 2 s", seq, d)
			}
		}
		if c := w.Status().Counts; c.Retried != 20 || c.Terminated != 0 || c.Acked != 20 {
			t.Errorf("counted %+v", c)
		}
	})
}

// Each attempt waits its own step of the list, the last one repeats; the attempts are counted as the handler sees them.
func TestAttemptsFollowTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1)
		w := r.start(testutil.Fail(-1, errWork), func(c *Config) { c.RetrySchedule, c.MaxAttempts = "200ms,1s,3s", 5 })
		r.floor(1, 20*time.Second)
		w.ok(w.end())
		starts := r.startTimes(1)
		for i, want := range []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second, 3 * time.Second} {
			if d := starts[i+1].Sub(starts[i]); d < want || d > want+50*time.Millisecond {
				t.Errorf("between attempts %d and %d are %v, want %v", i+1, i+2, d, want)
			}
			if n := r.calls.Calls()[i].Attempt; n != i+1 {
				t.Errorf("attempt %d says that it is %d", i+1, n)
			}
		}
	})
}

// RetryAfter goes before the policy, and its delay holds, below and above ack_wait. A lease that is extended behind the NAK would
// start it anew: the message then came back after ack_wait.
func TestRetryAfterHolds(t *testing.T) {
	for _, delay := range []time.Duration{time.Second, 4 * time.Second} {
		t.Run(delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, testutil.Bubble(t), 100)
				w := r.start(testutil.Fail(1, wrapTwice(ackfloor.RetryAfter(delay, errWork))))
				r.floor(100, 10*time.Second)
				w.ok(w.end())
				for seq := uint64(1); seq <= 100; seq++ {
					if starts := r.startTimes(seq); len(starts) != 2 || starts[1].Sub(starts[0]) < delay || starts[1].Sub(starts[0]) > delay+100*time.Millisecond {
						t.Errorf("sequence %d: the attempts began at %v", seq, starts)
					}
				}
			})
		})
	}
}

// Whatever the failure, the attempts end at their limit: terminated, the floor moved, nothing pending, one line, the slot alive.
func TestAttemptsEnd(t *testing.T) {
	blocked := ackfloor.HandlerFunc(func(ctx context.Context, _ *ackfloor.Message) error {
		<-ctx.Done()
		return ctx.Err()
	})
	tests := []struct {
		name              string
		h                 ackfloor.Handler
		attempts          int
		reason            string
		exhausted, panics uint64
	}{
		{"an error", testutil.Fail(-1, errWork), 4, "exhausted", 1, 0},
		{"RetryAfter", testutil.Fail(-1, ackfloor.RetryAfter(50*time.Millisecond, errWork)), 4, "exhausted", 1, 0},
		{"Permanent", testutil.Fail(-1, wrapTwice(ackfloor.Permanent(errWork))), 1, "permanent", 0, 0},
		{"undecodable", ackfloor.JSON(func(context.Context, struct{}, *ackfloor.Message) error { return nil }), 1, "undecodable", 0, 0},
		{"a panic", testutil.Panic("boom"), 4, "exhausted", 1, 4},
		{"a panic with an error", testutil.Panic(errWork), 4, "exhausted", 1, 4},
		{"panic(nil)", testutil.Panic(nil), 4, "exhausted", 1, 4},
		{"Goexit", testutil.Goexit(), 4, "exhausted", 1, 4},
		{"the handle timeout", blocked, 4, "timed out", 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, testutil.Bubble(t), 2) // bodies "0" and "1"
				h := testutil.ByData(map[string]ackfloor.Handler{"0": tt.h}, testutil.Succeed())
				w := r.start(h, func(c *Config) { c.MaxAttempts, c.Concurrency, c.HandleTimeout = 4, 1, 500*time.Millisecond })
				r.floor(2, 10*time.Second)
				time.Sleep(10 * time.Second) // nothing comes behind the last
				w.ok(w.end())
				if n := r.calls.Count(1); n != tt.attempts || r.calls.Count(2) != 1 {
					t.Errorf("%d attempts, want %d; the other message %d", n, tt.attempts, r.calls.Count(2))
				}
				c := w.Status().Counts
				if c.Terminated != 1 || c.Exhausted != tt.exhausted || c.Panics != tt.panics || c.Retried != uint64(tt.attempts-1) || c.Acked != 1 {
					t.Errorf("counted %+v", c)
				}
				lines := r.logs.FilterMessageSnippet("given up").All()
				if len(lines) != 1 || r.logged("failed: will be tried again") != tt.attempts-1 {
					t.Fatalf("%d lines give it up, %d retry it", len(lines), r.logged("failed: will be tried again"))
				}
				if f := lines[0].ContextMap(); f["reason"] != tt.reason || f["sequence"] != uint64(1) || f["subject"] != "events.0" || f["attempt"] != int64(tt.attempts) {
					t.Errorf("the line says %v", f)
				}
			})
		})
	}
}

// A slot outlives its handler's end of the goroutine: with one slot, ten in a row and then good ones.
func TestSlotSurvivesGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 20)
		handlers := map[string]ackfloor.Handler{}
		for i := range 10 {
			handlers[fmt.Sprint(i)] = testutil.Goexit()
		}
		w := r.start(testutil.ByData(handlers, testutil.Succeed()), func(c *Config) { c.Concurrency, c.MaxAttempts = 1, 1 })
		r.floor(20, 10*time.Second)
		r.onceEach(20)
		if n := r.calls.MaxConcurrent(); n != 1 {
			t.Errorf("%d handlers ran at once in one slot", n)
		}
		w.ok(w.end())
		if c := w.Status().Counts; c.Panics != 10 || c.Terminated != 10 || c.Acked != 10 {
			t.Errorf("counted %+v", c)
		}
	})
}

type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

// A nil pointer returned as an error, and a policy that panics, are failures of their message: neither ends the process, the slot or the others.
func TestUserCodeThatPanicsWhileSettling(t *testing.T) {
	panics := func(int, error) (time.Duration, bool) { panic("in the policy") }
	for name, broken := range map[string]struct {
		err    error
		policy retry.Policy
	}{"a nil pointer": {(*brokenError)(nil), nil}, "a nil Permanent": {(*ackfloor.PermanentError)(nil), nil}, "the policy": {errWork, panics}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, testutil.Bubble(t), 3)
				h := testutil.ByData(map[string]ackfloor.Handler{"1": testutil.Fail(-1, broken.err)}, testutil.Succeed())
				w := r.start(h, func(c *Config) { c.Concurrency, c.MaxAttempts, c.Retry = 1, 2, broken.policy })
				r.floor(3, 10*time.Second)
				w.ok(w.end())
				if c := w.Status().Counts; r.calls.Count(2) != 2 || r.calls.Distinct() != 3 || c.Terminated != 1 || c.Retried != 1 || c.Acked != 2 || r.logged("given up") != 1 {
					t.Errorf("counted %+v, handled %v", c, r.calls.Calls())
				}
			})
		})
	}
}

// Failures that wait for their retry count against max_ack_pending. It is warned of, it shows, and the good ones come when the first
// delay has passed: M failures every d.
func TestWaitingFailuresStarveOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 5 * time.Second
		r := newRig(t, testutil.Bubble(t), 110)
		began := time.Now()
		w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			if m.Sequence <= 10 {
				return errWork
			}
			return nil
		}), func(c *Config) { c.MaxAckPending, c.RetrySchedule, c.MaxAttempts = 10, "5s", 2 })
		r.calls.Wait(t, 10, time.Second)
		time.Sleep(time.Second)
		if r.logged("failed messages that wait for their retry count against it, so 10 of them stop all others") != 1 {
			t.Error("not warned of")
		}
		if w.Status().Parked != 10 || r.logged("fill up max_ack_pending") != 1 {
			t.Errorf("%d are shown as parked, %d warnings", w.Status().Parked, r.logged("fill up max_ack_pending"))
		}
		if c, err := w.Look(t.Context()); err != nil || c.AckPending != 10 || c.Pending != 100 || w.Status().Cursor.AckPending != 10 {
			t.Errorf("the status shows %+v, %v", w.Status().Cursor, err)
		}
		if n := len(r.calls.Calls()); n != 10 {
			t.Errorf("%d calls while all ten wait", n)
		}
		r.floor(110, 10*time.Second)
		for _, c := range r.calls.Calls() {
			if d := c.Start.Sub(began); c.Sequence > 10 && (d < delay || d > delay+500*time.Millisecond) {
				t.Fatalf("sequence %d began after %v, want %v and a little", c.Sequence, d, delay)
			}
		}
		if c := w.Status().Counts; c.Terminated != 10 || c.Acked != 100 {
			t.Errorf("counted %+v", c)
		}
		if n := w.Status().Parked; n != 0 {
			t.Errorf("%d are parked at the end", n)
		}
		w.ok(w.end())
	})
}

// What was given back with a delay returns after a restart of the worker, when the delay has passed and not before.
func TestGivenBackReturnsAfterRestart(t *testing.T) {
	for _, server := range []bool{false, true} {
		t.Run(fmt.Sprintf("the server too: %v", server), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r, failing := newRig(t, s, 1), func(c *Config) { c.RetrySchedule = "3s" }
				w := r.start(testutil.Fail(-1, errWork), failing)
				r.calls.Wait(t, 1, time.Second)
				failed := time.Now()
				time.Sleep(time.Second)
				w.ok(w.end())
				if server {
					s.Restart()
				}
				var again testutil.Recorder
				next := r.start(again.Wrap(testutil.Succeed()), failing)
				r.floor(1, 10*time.Second)
				next.ok(next.end())
				calls := again.Calls()
				if len(calls) != 1 || calls[0].Attempt != 2 {
					t.Fatalf("handled again %v", calls)
				}
				if d := calls[0].Start.Sub(failed); d < 2*time.Second || d > 5*time.Second {
					t.Errorf("it came back after %v", d)
				}
			})
		})
	}
}
