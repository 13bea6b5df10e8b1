package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
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
		if gap := r.longestGap(began); gap > 2*time.Second {
			t.Errorf("nothing was handled for %v", gap)
		}
		a.ok(a.end())
		b.ok(b.end())
		r.ordered(2000)
		r.noneTwice()
	})
}

// A message that waits for its retry goes to the process that takes over, with its attempts, and the others of its key behind it.
func TestRetryGoesToWhoTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		keyed(t, s, 40, 4)
		r := newRig(t, s, -1)
		slow := func(c *Config) { c.RetrySchedule, c.Concurrency = "1m", 1 }
		h := testutil.ByData(map[string]ackfloor.Handler{"4": testutil.Fail(2, errWork)}, testutil.Sleep(10*time.Millisecond))
		a := r.start(h, pinnedInOrder, withLetters, slow)
		time.Sleep(time.Second)
		var other testutil.Recorder
		b := r.inAnotherProcess(other.Wrap(h), pinnedInOrder, withLetters, slow)
		time.Sleep(time.Second)
		r.takePin()
		put(t, s, "events.k9", "", nil) // the pin is given with a message
		r.floor(41, 3*time.Minute)
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
					drift := ""
					for _, d := range w.Status().Drift {
						drift += d.Field + " " + d.Have + " " + d.Want
					}
					if drift != tt.drift {
						t.Errorf("drift %q, want %q", drift, tt.drift)
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
