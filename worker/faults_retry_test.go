package worker

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/retry"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// Delays that make no sense are no hot loop, hold up nobody, and end with the attempts: below zero and none at all, of ten years, of as long as there is.
func TestOddDelays(t *testing.T) {
	const decade = 10 * 365 * 24 * time.Hour
	policy := func(d time.Duration) retry.Policy { return func(int, error) (time.Duration, bool) { return d, true } }
	for name, tt := range map[string]struct {
		err    error
		policy retry.Policy
		calls  int // of the message, in a minute
	}{
		"RetryAfter below zero":   {ackfloor.RetryAfter(-time.Hour, errWork), nil, 5},
		"made below zero by hand": {&ackfloor.RetryAfterError{Delay: -time.Hour, Err: errWork}, nil, 5},
		"RetryAfter zero":         {ackfloor.RetryAfter(0, errWork), nil, 5},
		"RetryAfter ten years":    {ackfloor.RetryAfter(decade, errWork), nil, 1},
		"RetryAfter for ever":     {ackfloor.RetryAfter(math.MaxInt64, errWork), nil, 1},
		"a policy below zero":     {errWork, policy(math.MinInt64), 5},
		"a policy for ever":       {errWork, policy(math.MaxInt64), 1},
		"joined with Permanent":   {errors.Join(ackfloor.RetryAfter(time.Second, errWork), ackfloor.Permanent(errWork)), nil, 1},
		"an error of nothing":     {errors.Join(), nil, 1}, // nil
	} {
		for _, way := range []string{"plain", "in order", "without books"} {
			t.Run(name+", "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := testutil.Bubble(t)
					r := newRig(t, s, 0)
					publish(t, s, "events.bad", "events.good", "events.good", "events.good")
					w := r.start(testutil.ByData(map[string]ackfloor.Handler{"events.bad": testutil.Fail(-1, tt.err)}, testutil.Succeed()), func(c *Config) {
						c.Retry = tt.policy
						if way != "without books" {
							withLetters(c)
						}
						if way == "in order" {
							c.Key = func(m *ackfloor.Message) string { return m.Subject }
						}
					})
					time.Sleep(20 * time.Second)
					publish(t, s, "events.good")
					time.Sleep(5 * time.Second)
					if n := r.calls.Count(1); n != tt.calls || r.calls.Distinct() != 5 {
						t.Errorf("%d calls, want %d; %d messages", n, tt.calls, r.calls.Distinct())
					}
					if st := w.Status(); !st.Ready || !st.Alive {
						t.Errorf("not well: %s", st.Reason)
					}
					w.ok(w.end())
					if w.took > 1200*time.Millisecond {
						t.Errorf("it took %v to stop", w.took)
					}
					if tt.calls == 1 && way != "in order" { // what waits for years waits through a restart of the server too
						s.Restart()
						next := r.start(testutil.Succeed())
						time.Sleep(10 * time.Second)
						next.ok(next.end())
						if n := r.calls.Count(1); n != 1 {
							t.Errorf("behind a restart of the server it was handled %d times", n)
						}
					}
				})
			})
		}
	}
}

// Stops and restarts of the server between, and two processes: a message has five attempts in all, numbered in order, whoever makes them.
func TestAttemptsAreCountedAcrossEverything(t *testing.T) {
	for _, way := range []string{"", "keyed", "batch"} {
		t.Run("mode "+way, func(t *testing.T) {
			mode = way
			defer func() { mode = "" }()
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 3)
				change := func(c *Config) { withLetters(c); c.RetrySchedule, c.PullExpiry = "3s", 200*time.Millisecond }
				for range 8 {
					claims.Clear()
					w := r.startOn(connectLikeWorker(t, s), testutil.Fail(-1, errWork), change)
					w.replaying()
					workers := []*running{w}
					if way != "keyed" { // two in order wait for each other's, for longer than they are left to work here
						workers = append(workers, r.inAnotherProcess(testutil.Fail(-1, errWork), change))
						workers[1].replaying()
					}
					time.Sleep(1700 * time.Millisecond)
					for _, w := range workers {
						w.ok(w.end())
					}
					s.Restart()
				}
				r.floor(3, 10*time.Second)
				for seq := uint64(1); seq <= 3; seq++ {
					var numbers []int
					for _, c := range r.calls.Calls() {
						if c.Sequence == seq {
							numbers = append(numbers, c.Attempt)
						}
					}
					if !slices.Equal(numbers, []int{1, 2, 3, 4, 5}) {
						t.Errorf("sequence %d had the attempts %v", seq, numbers)
					}
				}
				if letters := r.letters(); len(letters) != 3 || letters[0].Attempts != 5 || letters[0].Reason != deadletter.ReasonExhausted {
					t.Errorf("%d letters", len(letters))
				}
			})
		})
	}
}

// What becomes of a message that waits for its retry and is deleted from the stream meanwhile, or grows too old: nothing, and nobody waits for it.
func TestMessageIsGoneWhileItWaitsForItsRetry(t *testing.T) {
	for name, gone := range map[string]func(ctx context.Context, stream jetstream.Stream) error{
		"deleted": func(ctx context.Context, stream jetstream.Stream) error { return stream.DeleteMsg(ctx, 1) },
		"purged":  func(ctx context.Context, stream jetstream.Stream) error { return stream.Purge(ctx) },
	} {
		for _, delay := range []string{"500ms", "5s"} {
			t.Run(name+", "+delay, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := testutil.Bubble(t)
					r := newRig(t, s, 1)
					w := r.start(testutil.Fail(-1, errWork), withLetters, func(c *Config) { c.RetrySchedule = delay })
					r.calls.Wait(t, 1, time.Second)
					time.Sleep(50 * time.Millisecond)
					stream, err := s.JetStream(t).Stream(t.Context(), rigStream)
					must(t, err)
					must(t, gone(t.Context(), stream))
					time.Sleep(30 * time.Second)
					r.floor(1, time.Second)
					if n := len(r.letters()); n != 0 && delay == "5s" || n > 1 {
						t.Errorf("%d letters", n)
					}
					w.ok(w.end())
				})
			})
		}
	}
}

// A consumer whose max_deliver is no higher than the attempts is warned of. As long as nothing else uses deliveries up, what fails for good is in the dead letters all the same.
func TestMaxDeliverIsWarnedOf(t *testing.T) {
	for _, delay := range []string{"300ms", "2s"} {
		t.Run(delay, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 3)
				cfg := wanted(r.cfg)
				cfg.MaxDeliver = 5
				s.Consumer(t, rigStream, cfg)
				w := r.start(testutil.ByData(map[string]ackfloor.Handler{"1": testutil.Fail(-1, errWork)}, testutil.Succeed()), withLetters, func(c *Config) { c.RetrySchedule = delay })
				r.awaitLetters(1, 30*time.Second)
				r.floor(3, 5*time.Second)
				w.ok(w.end())
				if r.logged("max_deliver of consumer") != 1 || r.logged("drifted: max_deliver is 5") != 1 || r.calls.Count(2) != 5 {
					t.Errorf("%d attempts, logged %v", r.calls.Count(2), r.logs.FilterMessageSnippet("max_deliver").All())
				}
			})
		})
	}
}
