package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const testTTL = 5 * time.Second

func pinned(c *Config) { c.PinnedTTL = testTTL }

func pinnedInOrder(c *Config) { inOrder(c); pinned(c) }

// noneTwice fails the test where a message was handled twice.
func (r *rig) noneTwice() {
	r.t.Helper()
	times := map[uint64]int{}
	for _, seq := range r.calls.Sequences() {
		if times[seq]++; times[seq] == 2 {
			r.t.Errorf("message %d was handled twice", seq)
		}
	}
}

// longestGap is the longest time in which no handler ended, behind a moment.
func (r *rig) longestGap(from time.Time) (gap time.Duration) {
	ends := []time.Time{from}
	for _, c := range r.calls.Calls() {
		if c.End.After(from) {
			ends = append(ends, c.End)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	for i := 1; i < len(ends); i++ {
		gap = max(gap, ends[i].Sub(ends[i-1]))
	}
	return gap
}

// take has somebody unpin the consumer, as an operator may.
func (r *rig) takePin() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := r.s.Conn(r.t, r.admin...).RequestWithContext(ctx, "$JS.API.CONSUMER.UNPIN.EVENTS.D", []byte(`{"group":"worker"}`))
	must(r.t, err)
}

// One works, the other stands by, ready, and takes over at once when the first is stopped: nothing is handled twice, and keys stay in order.
func TestStandbyTakesOverAtAStop(t *testing.T) {
	for name, in := range map[string]func(*Config){"in order": pinnedInOrder, "without keys": pinned} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				keyed(t, s, 1000, 10)
				r := newRig(t, s, -1)
				in := func(c *Config) { in(c); c.MaxAckPending = 100 }
				a := r.start(testutil.Sleep(20*time.Millisecond), in, withLetters)
				time.Sleep(50 * time.Millisecond)
				var other testutil.Recorder
				b := r.inAnotherProcess(other.Wrap(testutil.Sleep(20*time.Millisecond)), in, withLetters)
				time.Sleep(350 * time.Millisecond)
				if st := b.Status(); !st.Standby || !st.Ready || len(other.Calls()) > 0 || a.Status().Standby {
					t.Errorf("standby %v, ready %v (%s), %d calls; the other %v", st.Standby, st.Ready, st.Reason, len(other.Calls()), a.Status().Standby)
				}
				stopped := time.Now()
				w := a.end()
				a.ok(w)
				r.floor(1000, time.Minute)
				if gap := r.longestGap(stopped); gap > 100*time.Millisecond {
					t.Errorf("nothing was handled for %v", gap)
				}
				if st := b.Status(); st.Standby || len(st.Counts.PullErrors) > 0 {
					t.Errorf("standby %v, errors %v, the first's %v", st.Standby, st.Counts.PullErrors, a.Status().Counts.PullErrors)
				}
				b.ok(b.end())
				r.noneTwice()
				if name == "in order" {
					r.ordered(1000)
				}
			})
		})
	}
}

// One that dies is followed when its pin's time is over; with keys in order, when everything that it held has come again.
func TestStandbyTakesOverFromTheDead(t *testing.T) {
	for name, tt := range map[string]struct {
		in    func(*Config)
		limit time.Duration
	}{"in order": {pinnedInOrder, 10*time.Second + time.Second}, "without keys": {pinned, testTTL + time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				keyed(t, s, 1000, 10)
				r := newRig(t, s, -1)
				long := func(c *Config) { c.AckWait = 10 * time.Second }
				a := r.start(testutil.Sleep(20*time.Millisecond), tt.in, long)
				time.Sleep(50 * time.Millisecond)
				b := r.inAnotherProcess(testutil.Sleep(20*time.Millisecond), tt.in, long)
				time.Sleep(300 * time.Millisecond)
				died := time.Now()
				a.crash()
				r.floor(1000, time.Minute)
				gap := r.longestGap(died)
				t.Logf("nothing was handled for %v", gap)
				if gap > tt.limit || gap < testTTL-time.Second {
					t.Errorf("nothing was handled for %v", gap)
				}
				b.ok(b.end())
				for subject, order := range r.firstSuccesses() {
					if name == "in order" && !slices.IsSorted(order) {
						t.Errorf("%s: %v", subject, order)
					}
				}
			})
		})
	}
}

// All slots are busy for longer than the pin lasts, or there is a pause: no pull goes out, and the pin stays.
func TestPinStaysWhileNothingIsPulled(t *testing.T) {
	pausing := func() ackfloor.Handler {
		first := true
		return ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			if first {
				first = false
				return ackfloor.Pause(30*time.Second, errWork)
			}
			return nil
		})
	}
	for name, h := range map[string]func() ackfloor.Handler{
		"busy":   func() ackfloor.Handler { return testutil.Sleep(30 * time.Second) },
		"paused": pausing,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, testutil.Bubble(t), 20)
				one := func(c *Config) { pinned(c); c.Concurrency = 1 }
				a := r.start(h(), one)
				time.Sleep(50 * time.Millisecond)
				var other testutil.Recorder
				b := r.inAnotherProcess(other.Wrap(testutil.Succeed()), one)
				time.Sleep(100 * time.Second)
				if n := len(other.Calls()); n > 0 || !b.Status().Standby || a.Status().Standby {
					t.Errorf("the other handled %d", n)
				}
				if errs := a.Status().Counts.PullErrors; len(errs) > 0 {
					t.Errorf("pull errors %v", errs)
				}
				b.ok(b.end())
				a.stop()
				_ = a.wait(time.Minute)
			})
		})
	}
}

// While the pin goes to and fro among three, messages of one key succeed in stream order, failures and all, and nothing stands still.
func TestOrderWhileThePinMoves(t *testing.T) {
	for _, with := range []func(*Config){withLetters, func(*Config) {}} {
		synctest.Test(t, func(t *testing.T) {
			s := testutil.Bubble(t)
			keyed(t, s, 3000, 12)
			r := newRig(t, s, -1)
			var mu sync.Mutex
			rng := rand.New(rand.NewPCG(3, uint64(time.Now().UnixNano())))
			h := ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
				mu.Lock()
				fail, wait := rng.IntN(20) == 0, time.Duration(1+rng.IntN(60))*time.Millisecond
				mu.Unlock()
				time.Sleep(wait)
				if fail {
					return errWork
				}
				return nil
			})
			long := func(c *Config) { c.AckWait, c.MaxAttempts = 10*time.Second, 20 }
			began := time.Now()
			ws := []*running{r.start(h, pinnedInOrder, long, with)}
			time.Sleep(50 * time.Millisecond)
			for range 2 {
				ws = append(ws, r.inAnotherProcess(h, pinnedInOrder, long, with))
			}
			moves := 0
			for r.s.Info(t, rigStream, rigConsumer).AckFloor.Stream < 3000 && time.Since(began) < 5*time.Minute {
				mu.Lock()
				wait := time.Duration(rng.IntN(3000)) * time.Millisecond
				mu.Unlock()
				time.Sleep(wait)
				r.takePin()
				moves++
			}
			r.floor(3000, time.Minute)
			t.Logf("%d moves in %v, nothing for %v at the most", moves, time.Since(began), r.longestGap(began))
			if gap := r.longestGap(began); gap > 2*time.Second {
				t.Errorf("nothing was handled for %v", gap)
			}
			for _, w := range ws {
				w.ok(w.end())
			}
			r.ordered(3000)
		})
	}
}

// One that is cut off loses the pin. Where its leases hold it finishes what runs, and the other waits for that; else its handlers end with ErrLeaseLost.
func TestPinnedIsCutOff(t *testing.T) {
	for name, tt := range map[string]struct {
		ackWait time.Duration
		lost    bool
	}{"its leases hold": {20 * time.Second, false}, "its leases are lost": {2 * time.Second, true}} {
		t.Run(name, func(t *testing.T) {
			s := testutil.Server(t)
			p := s.Proxy(t)
			keyed(t, s, 200, 5)
			r := newRig(t, s, -1)
			nc, err := Connect(t.Context(), Connection{URL: p.URL()})
			must(t, err)
			soon := func(c *Config) { pinnedInOrder(c); c.PinnedTTL, c.AckWait = time.Second, tt.ackWait }
			var causes testutil.Recorder
			h := testutil.ByData(map[string]ackfloor.Handler{"12": testutil.Sleep(4 * time.Second)}, testutil.Sleep(10*time.Millisecond))
			a := r.startOn(nc, causes.Wrap(h), soon)
			causes.WaitStarted(t, 20, 10*time.Second)
			b := r.inAnotherProcess(testutil.Sleep(10*time.Millisecond), soon)
			p.Hold()
			time.Sleep(3 * time.Second)
			p.Release()
			r.floor(200, 30*time.Second)
			a.ok(a.end())
			b.ok(b.end())
			if n := a.Status().Counts.LeasesLost; (n > 0) != tt.lost {
				t.Errorf("%d leases were lost", n)
			}
			if tt.lost && !slices.ContainsFunc(causes.Calls(), func(c testutil.Call) bool { return c.Sequence == 13 && errors.Is(c.Cause, ackfloor.ErrLeaseLost) }) {
				t.Errorf("no handler was told: %v", causes.Calls())
			}
			for subject, order := range r.firstSuccesses() {
				if !slices.IsSorted(order) {
					t.Errorf("%s: %v", subject, order)
				}
			}
			if !tt.lost {
				r.ordered(200)
				r.noneTwice()
			}
		})
	}
}

// Behind a restart of the server nobody has the pin, and somebody gets it at once: keys stay in order and nothing is handled twice.
func TestServerRestartUnderThePinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		keyed(t, s, 2000, 10)
		r := newRig(t, s, -1)
		a := r.start(testutil.Sleep(20*time.Millisecond), pinnedInOrder)
		time.Sleep(50 * time.Millisecond)
		b := r.inAnotherProcess(testutil.Sleep(20*time.Millisecond), pinnedInOrder)
		began := time.Now()
		for range 4 {
			time.Sleep(300 * time.Millisecond)
			s.Restart()
		}
		r.floor(2000, time.Minute)
		if gap := r.longestGap(began); gap > 4*time.Second {
			t.Errorf("nothing was handled for %v", gap)
		}
		a.ok(a.end())
		b.ok(b.end())
		r.ordered(2000)
		r.noneTwice()
	})
}

// A message that has failed goes to the process that takes over, with its attempts, and the others of its key behind it: one that waits for its retry, and one that fails later.
func TestRetryGoesToWhoTakesOver(t *testing.T) {
	for name, long := range map[string]time.Duration{"it waits": 0, "it fails later": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				keyed(t, s, 40, 4)
				r := newRig(t, s, -1)
				slow := func(c *Config) { c.RetrySchedule, c.Concurrency = "1m", 2 }
				fails := testutil.Fail(2, errWork)
				h := testutil.ByData(map[string]ackfloor.Handler{"4": ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
					time.Sleep(long)
					return fails.Handle(ctx, m)
				})}, testutil.Sleep(10*time.Millisecond))
				a := r.start(h, pinnedInOrder, withLetters, slow)
				time.Sleep(time.Second)
				var other testutil.Recorder
				b := r.inAnotherProcess(other.Wrap(h), pinnedInOrder, withLetters, slow)
				time.Sleep(time.Second)
				r.takePin()
				put(t, s, "events.k9", "", nil)     // the pin is given with a message
				r.floor(41, 135*time.Second+3*long) // the rest of the first delay, and another
				if n := other.Count(5); n != 2 || r.calls.Count(5) != 3 {
					t.Errorf("%d of %d attempts where it went", n, r.calls.Count(5))
				}
				for _, c := range other.Calls() {
					if c.Sequence == 5 && c.Attempt < 2 {
						t.Errorf("attempt %d", c.Attempt)
					}
				}
				a.ok(a.end())
				b.ok(b.end())
				r.ordered(41)
				if r.logged("keys go on without messages") > 0 {
					t.Error("one that stands by has missed what it handed back")
				}
			})
		})
	}
}

// The pin comes back while the other one still runs a message: what comes with it waits, though it has been here before.
func TestPinComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		keyed(t, s, 10, 1)
		r := newRig(t, s, -1)
		h := testutil.ByData(map[string]ackfloor.Handler{"0": testutil.Sleep(2 * time.Second), "1": testutil.Sleep(5 * time.Second)}, testutil.Sleep(10*time.Millisecond))
		a := r.start(h, pinnedInOrder)
		time.Sleep(50 * time.Millisecond)
		b := r.inAnotherProcess(h, pinnedInOrder)
		for range 2 {
			time.Sleep(1500 * time.Millisecond)
			r.takePin()
			put(t, s, "events.k0", "", nil)
		}
		r.floor(12, 20*time.Second)
		if a.Status().Counts.Acked < 2 || b.Status().Counts.Acked != 1 {
			t.Errorf("%d and %d were handled: the pin has not moved as it should", a.Status().Counts.Acked, b.Status().Counts.Acked)
		}
		a.ok(a.end())
		b.ok(b.end())
		r.ordered(12)
	})
}

// What was handed back with the pin and settled elsewhere is not waited for when the pin comes back, while an earlier message holds up the ack floor.
func TestNothingIsMissedThatWasSettledElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		s.Stream(t, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}})
		put(t, s, "events.fails", "fails", nil)
		put(t, s, "events.slow", "slow", nil)
		put(t, s, "events.k", "", nil) // is ready when the pin goes, and has no slot
		r := newRig(t, s, -1)
		fails := testutil.Fail(2, errWork)
		h := testutil.ByData(map[string]ackfloor.Handler{"fails": ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
			if m.Attempt == 3 {
				time.Sleep(30 * time.Second)
				return nil
			}
			time.Sleep(6 * time.Second)
			return fails.Handle(ctx, m)
		}), "slow": testutil.Sleep(6 * time.Second)}, testutil.Sleep(10*time.Millisecond))
		two := func(c *Config) {
			pinnedInOrder(c)
			c.Concurrency, c.Prefetch, c.RetrySchedule, c.AckWait = 2, 1, "10ms", 20*time.Second
		}
		a := r.start(h, two)
		time.Sleep(time.Second)
		b := r.inAnotherProcess(h, two)
		for range 2 {
			time.Sleep(1500 * time.Millisecond)
			r.takePin()
			put(t, s, "events.k", "", nil)
			time.Sleep(4 * time.Second)
		}
		r.floor(5, time.Minute)
		if st := a.Status().Counts; st.Acked != 3 || st.Returned == 0 {
			t.Errorf("the pin has not moved as it should: %+v", st)
		}
		a.ok(a.end())
		b.ok(b.end())
		if t1, t5 := r.startTimes(1), r.startTimes(5); len(t1) != 3 || t5[0].Sub(t1[2]) > time.Second {
			t.Errorf("message 1 began at %v, message 5 of another key at %v", t1, t5)
		}
	})
}

// The handler sees a message as it is stored: without the pin's header.
func TestPinIsNoHeaderOfTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		s.Events(t, 1)
		put(t, s, "events.h", "", nats.Header{"X": {"1"}})
		r := newRig(t, s, -1)
		var mu sync.Mutex
		var got []nats.Header
		w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, m.Header)
			return nil
		}), pinned, func(c *Config) { c.Concurrency = 1 })
		r.floor(2, 5*time.Second)
		w.ok(w.end())
		if len(got) != 2 || got[0] != nil || len(got[1]) != 1 || got[1].Get("X") != "1" {
			t.Errorf("headers %v", got)
		}
	})
}

// Told to end when idle, the one that works ends and so does the one that stands by.
func TestStandbyEndsWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		keyed(t, s, 200, 10)
		r := newRig(t, s, -1)
		idle := func(c *Config) { pinnedInOrder(c); c.ExitWhenIdle = true }
		a := r.start(testutil.Sleep(20*time.Millisecond), idle)
		time.Sleep(50 * time.Millisecond)
		b := r.inAnotherProcess(testutil.Sleep(20*time.Millisecond), idle)
		a.ok(a.wait(time.Minute))
		b.ok(b.wait(time.Minute))
		r.onceEach(200)
		r.ordered(200)
	})
}

// Replays are handled where the pin is, and anywhere while nobody has it.
func TestReplaysWhereThePinIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, a, letters, mended := replayRig(t, 4, testutil.Succeed(), pinned)
		var other testutil.Recorder
		b := r.inAnotherProcess(other.Wrap(testutil.Succeed()), withLetters, pinned)
		b.replaying()
		time.Sleep(6 * time.Second)
		mended.Store(true)
		r.replay(letters[:2]...)
		time.Sleep(6 * time.Second)
		if n := len(other.Calls()); n != 0 || r.calls.Count(letters[0].MessageSequence) != 2 || r.calls.Count(letters[1].MessageSequence) != 2 {
			t.Errorf("%d replays came to the one that stands by", n)
		}
		if p := r.s.Info(t, "EVENTS_DLQ", "replay_EVENTS_D").Config.PriorityPolicy; p != jetstream.PriorityPolicyNone {
			t.Errorf("the consumer of the replays has priority policy %v", p)
		}
		a.crash()
		time.Sleep(12 * time.Second)
		r.replay(letters[2:]...)
		time.Sleep(6 * time.Second)
		if n := len(other.Calls()); n != 2 {
			t.Errorf("%d replays were handled while nobody has the pin", n)
		}
		b.ok(b.end())
	})
}

// Without the right to give the pin up a stop takes no longer, says so, and the next process works when the pin's time is over.
func TestStopWithoutTheRightToUnpin(t *testing.T) {
	unpin := "$JS.API.CONSUMER.UNPIN.EVENTS.D"
	for _, may := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			rights := slices.Concat(bindOnly, creating)
			if may {
				rights = append(rights, unpin)
			}
			r, start := lockedRig(t, 500, rights, ownInbox)
			a := start(testutil.Sleep(20*time.Millisecond), pinned)
			a.working()
			claims.Clear()
			b := start(testutil.Sleep(20*time.Millisecond), pinned)
			b.working()
			time.Sleep(500 * time.Millisecond)
			stopped := time.Now()
			a.ok(a.end())
			if a.took > 2*time.Second {
				t.Errorf("the stop took %v", a.took)
			}
			r.floor(500, time.Minute)
			if gap := r.longestGap(stopped); (gap < time.Second) != may || gap > testTTL+time.Second {
				t.Errorf("may %v: nothing was handled for %v", may, gap)
			}
			if n := r.logs.FilterMessageSnippet("the pin can't be given up").Len(); (n == 0) != may {
				t.Errorf("may %v: %d warnings", may, n)
			}
			b.ok(b.end())
			r.onceEach(500)
		})
	}
}

// What a consumer has and the configuration says of the pin: drift, refused by default, applied by BIND=update in both directions.
func TestPinnedDrift(t *testing.T) {
	other := jetstream.ConsumerConfig{Durable: rigConsumer, AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1, AckWait: 2 * time.Second, MaxAckPending: 100}
	with := func(p jetstream.PriorityPolicy, group string, ttl time.Duration) jetstream.ConsumerConfig {
		c := other
		c.PriorityPolicy, c.PriorityGroups, c.PinnedTTL = p, []string{group}, ttl
		return c
	}
	for name, tt := range map[string]struct {
		have    jetstream.ConsumerConfig
		ttl     time.Duration
		drift   string // field, have, want
		refused string // unless updated
	}{
		"none":           {other, 0, "", ""},
		"not pinned":     {other, testTTL, "priority_policy none pinned_client", "PINNED_TTL (5s) wants pinned_client"},
		"pinned":         {with(jetstream.PriorityPolicyPinned, "mine", testTTL), testTTL, "", ""},
		"another time":   {with(jetstream.PriorityPolicyPinned, "mine", time.Minute), testTTL, "priority_timeout 1m0s 5s", ""},
		"pinned, unsaid": {with(jetstream.PriorityPolicyPinned, "mine", testTTL), 0, "priority_policy pinned_client none", "set PINNED_TTL"},
		"overflow":       {with(jetstream.PriorityPolicyOverflow, "mine", 0), 0, "priority_policy overflow none", "asks without a group"},
		"overflow, said": {with(jetstream.PriorityPolicyOverflow, "mine", 0), testTTL, "priority_policy overflow pinned_client", "has priority policy overflow"},
	} {
		for _, mode := range []string{BindEnsure, BindExisting, BindUpdate} {
			t.Run(name+" "+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := testutil.Bubble(t)
					r := newRig(t, s, 20)
					s.Consumer(t, rigStream, tt.have)
					w := r.start(testutil.Succeed(), func(c *Config) { c.Bind, c.PinnedTTL = mode, tt.ttl })
					if tt.refused != "" && mode != BindUpdate {
						mentioned(t, configProblems(t, w.wait(10*time.Second)), tt.refused)
						return
					}
					r.floor(20, 5*time.Second)
					var drift strings.Builder
					for _, d := range w.Status().Drift {
						drift.WriteString(d.Field + " " + d.Have + " " + d.Want)
					}
					if drift.String() != tt.drift {
						t.Errorf("drift %q, want %q", drift.String(), tt.drift)
					}
					if c := s.Info(t, rigStream, rigConsumer).Config; mode == BindUpdate && (c.PinnedTTL != tt.ttl || (c.PriorityPolicy == jetstream.PriorityPolicyPinned) != (tt.ttl > 0)) {
						t.Errorf("updated to %v %v", c.PriorityPolicy, c.PinnedTTL)
					}
					w.ok(w.end())
					if len(w.Status().Counts.PullErrors) > 0 {
						t.Errorf("pull errors %v", w.Status().Counts.PullErrors)
					}
				})
			})
		}
	}
}

// Large messages, of which a process holds few: one that takes over has room for what the dead one held, though new ones have come first, and without the pin no less.
func TestRoomForWhatIsUnderWay(t *testing.T) {
	for name, in := range map[string]func(*Config){"pinned": pinnedInOrder, "not pinned": inOrder} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				s.Stream(t, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}})
				body := strings.Repeat("x", 50_000)
				js := s.JetStream(t)
				for i := range 300 {
					_, err := js.Publish(context.Background(), fmt.Sprintf("events.k%d", i%3), []byte(body))
					must(t, err)
				}
				r := newRig(t, s, -1)
				large := func(c *Config) { in(c); c.PullBytes, c.AckWait = 1<<20, 10*time.Second }
				a := r.start(testutil.Sleep(20*time.Millisecond), large)
				time.Sleep(300 * time.Millisecond)
				died := time.Now()
				a.crash()
				b := r.start(testutil.Sleep(20*time.Millisecond), large)
				most := 0
				for r.s.Info(t, rigStream, rigConsumer).AckFloor.Stream < 300 && time.Since(died) < time.Minute {
					time.Sleep(100 * time.Millisecond)
					b.buf.mu.Lock()
					most = max(most, b.buf.held.len())
					b.buf.mu.Unlock()
				}
				if gap := r.longestGap(died); gap > 13*time.Second {
					t.Errorf("nothing was handled for %v", gap)
				}
				t.Logf("%d were held at the most, nothing was handled for %v", most, r.longestGap(died))
				b.ok(b.end())
				for subject, order := range r.firstSuccesses() {
					if !slices.IsSorted(order) || len(order) != 100 {
						t.Errorf("%s: %v", subject, order)
					}
				}
			})
		})
	}
}

// A handler that takes longer than ack_wait goes on where the pin was, under lease: the process that has the pin now begins nothing before it has returned.
func TestPinnedWaitsForWhatRunsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		keyed(t, s, 20, 2)
		r := newRig(t, s, -1)
		h := testutil.ByData(map[string]ackfloor.Handler{"3": testutil.Sleep(15 * time.Second)}, testutil.Sleep(10*time.Millisecond))
		a := r.start(h, pinnedInOrder)
		time.Sleep(5 * time.Second)
		b := r.inAnotherProcess(h, pinnedInOrder)
		time.Sleep(time.Second)
		r.takePin()
		for i := range 4 {
			put(t, s, fmt.Sprintf("events.k%d", i%2), "", nil)
		}
		r.floor(24, time.Minute)
		if n := b.Status().Counts.Acked; n != 12 || r.calls.Count(4) != 1 {
			t.Errorf("the other handled %d, and message 4 was handled %d times", n, r.calls.Count(4))
		}
		a.ok(a.end())
		b.ok(b.end())
		r.ordered(24)
	})
}

// The pin may come to a pull that is open while its process stops: it is given up once more at the end.
func TestPinThatComesDuringAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 0)
		a := r.start(testutil.Succeed(), pinned)
		a.working()
		time.Sleep(300 * time.Millisecond)
		a.stop()
		put(t, r.s, "events.1", "", nil)
		a.ok(a.wait(5 * time.Second))
		b := r.start(testutil.Succeed(), pinned)
		put(t, r.s, "events.2", "", nil)
		r.floor(2, time.Second)
		if a.Status().Counts.Acked != 1 || b.Status().Counts.Acked != 1 {
			t.Errorf("%d and %d handled", a.Status().Counts.Acked, b.Status().Counts.Acked)
		}
		b.ok(b.end())
	})
}

// A change of the consumer's leader takes the pin away. Somebody gets it at once, and keys stay in order. What had been delivered just before, and was not
// stamped yet, the new leader may give to the other process: that is handled twice.
func TestPinnedOverChangesOfTheLeader(t *testing.T) {
	c := testutil.Cluster(t, 3)
	c.Stream(t, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}, Replicas: 3})
	js := c.JetStream(t)
	for i := range 1500 {
		_, err := js.PublishAsync(fmt.Sprintf("events.k%d", i%10), nil)
		must(t, err)
	}
	<-js.PublishAsyncComplete()
	r := newRig(t, c, -1)
	a := r.start(testutil.Sleep(10*time.Millisecond), pinnedInOrder)
	r.calls.Wait(t, 20, 10*time.Second)
	b := r.inAnotherProcess(testutil.Sleep(10*time.Millisecond), pinnedInOrder)
	began := time.Now()
	for range 4 {
		time.Sleep(300 * time.Millisecond)
		c.MoveConsumerLeader(t, rigStream, rigConsumer)
	}
	r.floor(1500, time.Minute)
	t.Logf("nothing was handled for %v", r.longestGap(began))
	if gap := r.longestGap(began); gap > 4*time.Second {
		t.Errorf("nothing was handled for %v", gap)
	}
	a.ok(a.end())
	b.ok(b.end())
	r.ordered(1500)
	if again := len(r.calls.Sequences()) - 1500; again > 16 {
		t.Errorf("%d were handled again", again)
	}
}

// The pin is taken all the time, so that several believe that they have it and each waits for what another holds, while the server has no message for anybody: they find out, and go on.
func TestPinThatDoesNotRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		keyed(t, s, 300, 12)
		r := newRig(t, s, -1)
		few := func(c *Config) { pinnedInOrder(c); c.MaxAckPending, c.AckWait = 30, 20*time.Second }
		h := testutil.Sleep(20 * time.Millisecond)
		ws := []*running{r.start(h, few)}
		time.Sleep(50 * time.Millisecond)
		for range 2 {
			ws = append(ws, r.inAnotherProcess(h, few))
		}
		for range 100 {
			time.Sleep(30 * time.Millisecond)
			r.takePin()
		}
		r.floor(300, 10*time.Second)
		for _, w := range ws {
			w.ok(w.end())
		}
		r.ordered(300)
		r.noneTwice()
	})
}

// What has come behind a crash waits for what the dead one held, also when the connection breaks meanwhile.
func TestOrderBehindACrashAndAReconnect(t *testing.T) {
	for name, in := range map[string]func(*Config){"pinned": pinnedInOrder, "not pinned": inOrder} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				keyed(t, s, 100, 10)
				r := newRig(t, s, -1)
				long := func(c *Config) { in(c); c.AckWait, c.PinnedTTL = 10*time.Second, min(c.PinnedTTL, time.Second) }
				a := r.start(testutil.Sleep(50*time.Millisecond), long)
				time.Sleep(220 * time.Millisecond)
				a.crash()
				publishKeyed(t, s, 100, 10)
				b := r.start(testutil.Sleep(10*time.Millisecond), long)
				for range 2 {
					time.Sleep(2500 * time.Millisecond)
					must(t, b.nc.ForceReconnect())
				}
				r.floor(200, time.Minute)
				b.ok(b.end())
				for subject, order := range r.firstSuccesses() {
					if !slices.IsSorted(order) {
						t.Errorf("%s: %v", subject, order)
					}
				}
			})
		})
	}
}
