package worker

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

// The longest of the pauses that handlers ask for at once counts, and the next try is made when it ends, not later.
func TestLongestPauseCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 2)
		var calls atomic.Int32
		w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			n := calls.Add(1)
			time.Sleep(time.Duration(m.Sequence) * 100 * time.Millisecond)
			if n <= 2 {
				return ackfloor.Pause(time.Duration(m.Sequence)*3*time.Second+700*time.Millisecond, errWork)
			}
			return nil
		}), withLetters, func(c *Config) { c.Concurrency = 2 })
		time.Sleep(20 * time.Second)
		w.ok(w.end())
		all := r.calls.Calls()
		if len(all) != 4 {
			t.Fatalf("%d calls, want 4: %v", len(all), all)
		}
		if gap := all[2].Start.Sub(all[1].End); gap < 6700*time.Millisecond-time.Millisecond || gap > 6720*time.Millisecond {
			t.Errorf("the next try came after %v, want 6.7s", gap)
		}
	})
}

// A pause for ever is one: nothing is tried.
func TestPauseForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 5)
		w := r.start(testutil.Fail(-1, ackfloor.Pause(1<<63-1, errWork)), withLetters)
		time.Sleep(time.Minute)
		if n := len(r.calls.Calls()); n > 4 || w.Status().Paused == "" {
			t.Errorf("%d calls", n)
		}
		w.ok(w.end())
	})
}

// In a long outage no more is held than the slots can take and one, however often each has been tried.
func TestPausesDoNotHoardMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 100)
		var down atomic.Bool
		down.Store(true)
		w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			if down.Load() {
				return ackfloor.Pause(time.Second, errWork)
			}
			return nil
		}), withLetters, func(c *Config) { c.Concurrency = 2 })
		time.Sleep(90 * time.Second)
		if n := s.Info(t, rigStream, rigConsumer).NumAckPending; n > 4 {
			t.Errorf("%d are held", n)
		}
		down.Store(false)
		r.floor(100, 5*time.Second)
		w.ok(w.end())
	})
}

// A handler that asks for a pause while the work ends, or behind the loss of its message, begins none.
func TestPauseThatComesTooLate(t *testing.T) {
	for name, tt := range map[string]struct {
		takes  time.Duration
		change func(*Config)
	}{
		"at a stop":                     {3 * time.Second, func(c *Config) {}},
		"behind its lease":              {10 * time.Second, func(c *Config) { c.HandleTimeout = 500 * time.Millisecond }},
		"behind its lease, and records": {10 * time.Second, func(c *Config) { c.HandleTimeout, c.Records = 500*time.Millisecond, off }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 1)
				w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
					if r.calls.Count(1) > 1 {
						return nil
					}
					time.Sleep(tt.takes)
					return ackfloor.Pause(time.Hour, errWork)
				}), withLetters, tt.change)
				r.calls.WaitStarted(t, 1, 5*time.Second)
				stops := name == "at a stop"
				if stops {
					time.Sleep(time.Second)
					w.ok(w.end())
					if w.took > 3*time.Second || w.Status().Counts.Returned != 1 {
						t.Errorf("it took %v, counted %+v", w.took, w.Status().Counts)
					}
				} else {
					time.Sleep(12 * time.Second)
				}
				if st := w.Status(); st.Counts.Pauses > 0 || st.Paused != "" {
					t.Errorf("paused %q, counted %+v", st.Paused, st.Counts)
				}
				if !stops {
					r.floor(1, 20*time.Second)
					w.ok(w.end())
				}
			})
		})
	}
}

// A message whose handler asked for a pause when its time was over stays leased until the pause ends.
func TestPauseBehindATimeoutKeepsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1)
		w := r.start(ackfloor.HandlerFunc(func(ctx context.Context, _ *ackfloor.Message) error {
			if r.calls.Count(1) == 1 {
				<-ctx.Done()
				return ackfloor.Pause(10*time.Second, ctx.Err())
			}
			return nil
		}), withLetters, func(c *Config) { c.HandleTimeout = time.Second })
		r.floor(1, 15*time.Second)
		w.ok(w.end())
		if c := w.Status().Counts; c.LeasesLost > 0 || c.Pauses != 1 || r.calls.Count(1) != 2 {
			t.Errorf("%d calls, counted %+v", r.calls.Count(1), c)
		}
	})
}

// Behind a pause one message is tried though replays wait for the slots.
func TestPauseIsTriedWhileReplaysWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 2)
		var mended atomic.Bool
		gate := make(chan struct{})
		w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			switch {
			case !mended.Load():
				return ackfloor.Permanent(errWork)
			case string(m.Data) == "long":
				<-gate
			case string(m.Data) == "pause" && r.calls.Count(m.Sequence) == 1:
				return ackfloor.Pause(time.Second, errWork)
			}
			return nil
		}), withLetters, func(c *Config) { c.Concurrency, c.HandleTimeout = 8, time.Hour })
		letters := r.awaitLetters(2, 10*time.Second)
		w.replaying()
		mended.Store(true)
		puts(t, s, 7, "long")
		time.Sleep(time.Second)
		puts(t, s, 1, "pause")
		time.Sleep(100 * time.Millisecond)
		r.replay(letters...)
		time.Sleep(time.Minute)
		if w.Status().Paused != "" || r.calls.Count(1) != 2 || r.calls.Count(2) != 2 {
			t.Errorf("a minute into a pause of one second, with a slot free: paused %q, calls %d and %d", w.Status().Paused, r.calls.Count(1), r.calls.Count(2))
		}
		close(gate)
		r.floor(10, 5*time.Second)
		w.ok(w.end())
	})
}

// A pause that ends has the next messages pulled at once.
func TestPullGoesOnBehindAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 50)
		w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			if m.Sequence == 1 && r.calls.Count(1) == 1 {
				return ackfloor.Pause(5*time.Second, errWork)
			}
			return nil
		}), withLetters, func(c *Config) { c.Concurrency, c.Prefetch = 1, 1 })
		r.calls.WaitStarted(t, 1, 5*time.Second)
		time.Sleep(4900 * time.Millisecond)
		r.floor(50, 600*time.Millisecond)
		w.ok(w.end())
	})
}

// A stop in a pause ends at once: also while a replay waits for a slot, which is not charged with it, and while suspects wait for their turn.
func TestStopInAPauseWithWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		var paused atomic.Bool
		w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			if paused.Load() {
				return ackfloor.Pause(time.Hour, errWork)
			}
			return ackfloor.Permanent(errWork)
		}), withLetters, func(c *Config) { c.HandleTimeout = 5 * time.Second })
		letters := r.awaitLetters(1, 10*time.Second)
		w.replaying()
		paused.Store(true)
		puts(t, s, 1, "x")
		time.Sleep(time.Second)
		r.replay(letters...)
		time.Sleep(time.Minute) // its time does not run while it waits
		child := w.replays.Load()
		w.ok(w.end())
		if c := child.Status().Counts; w.took > 2*time.Second || c.Returned != 1 || c.Retried > 0 || r.logged("the handle timeout has passed") > 0 {
			t.Errorf("it took %v, replays counted %+v", w.took, c)
		}
		for what, x := range map[string]*Runner{"the worker": w.Runner, "its replays": child} {
			if held := x.holds(); held != "" && x != w.Runner {
				t.Errorf("%s: %s", what, held)
			}
		}
		w = r.start(testutil.Succeed(), withLetters)
		r.floor(2, 5*time.Second)
		w.replaying()
		time.Sleep(time.Second)
		w.ok(w.end())
		if calls := r.calls.Calls(); r.calls.Count(1) != 2 || calls[len(calls)-1].Attempt != 1 {
			t.Errorf("%d calls of the replay: %v", r.calls.Count(1), calls)
		}
	})
}

// A stop at any moment of a start that meets suspects and a pause ends at once.
func TestStopWithSuspectsInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 0)
		r.suspects(20, "suspect")
		for i := range 20 {
			w := r.start(testutil.Fail(-1, ackfloor.Pause(time.Hour, errWork)), withLetters)
			time.Sleep(time.Duration(i) * 10 * time.Millisecond)
			if err := w.end(); w.took > 2*time.Second {
				t.Errorf("stopped %d ms behind its start: it took %v: %v", i*10, w.took, err)
			}
		}
	})
}

// Few failed messages that wait for their retry are not warned of.
func TestFewWaitingFailuresAreNotWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 60)
		bad := map[string]ackfloor.Handler{}
		for i := range 50 {
			bad[fmt.Sprint(i)] = testutil.Fail(1, ackfloor.RetryAfter(time.Minute, errWork))
		}
		w := r.start(testutil.ByData(bad, testutil.Succeed()), withLetters)
		r.calls.WaitDistinct(t, 60, 10*time.Second)
		time.Sleep(time.Second)
		if st := w.Status(); st.Parked != 50 || r.logged("fill up max_ack_pending") > 0 {
			t.Errorf("%d of 100 wait, and it warned %d times", st.Parked, r.logged("fill up max_ack_pending"))
		}
		w.ok(w.end())
	})
}

// Where the bucket tells that a message is used up, giving it up ends no pause: no handler has tried anything.
func TestGivingUpUntriedEndsNoPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		once := func(c *Config) { c.MaxAttempts, c.HandleTimeout, c.DrainTimeout = 1, time.Second, 100*time.Millisecond }
		release := make(chan struct{})
		w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { <-release; return nil }), withLetters, once)
		time.Sleep(1700 * time.Millisecond)
		w.crash()
		close(release)
		puts(t, s, 10, "x")
		w = r.start(testutil.Fail(-1, ackfloor.Pause(4*time.Second, errWork)), withLetters, once, func(c *Config) { c.Concurrency = 1 })
		time.Sleep(time.Minute)
		if n := r.logged("resumed"); n > 0 {
			t.Errorf("every handler asked for a pause, and it was ended %d times", n)
		}
		w.ok(w.end())
	})
}
