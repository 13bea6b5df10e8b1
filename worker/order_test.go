package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// keyed makes stream EVENTS with n messages over so many keys: events.k<i>.
func keyed(t *testing.T, s *testutil.S, n, keys int) {
	t.Helper()
	s.Stream(t, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}})
	publishKeyed(t, s, n, keys)
}

func publishKeyed(t *testing.T, s *testutil.S, n, keys int) {
	t.Helper()
	js := s.JetStream(t)
	for i := range n {
		_, err := js.Publish(context.Background(), fmt.Sprintf("events.k%d", i%keys), fmt.Append(nil, i))
		must(t, err)
	}
}

func inOrder(c *Config) { c.Key, c.Concurrency, c.MaxAckPending = ackfloor.KeyBySubject(2), 16, 1000 }

// firstSuccesses returns the sequences of each subject in the order in which each succeeded first.
func (r *rig) firstSuccesses() map[string][]uint64 {
	calls := r.calls.Calls()
	slices.SortStableFunc(calls, func(a, b testutil.Call) int { return a.End.Compare(b.End) })
	seen := map[uint64]bool{}
	out := map[string][]uint64{}
	for _, c := range calls {
		if c.Err == nil && !c.End.IsZero() && !seen[c.Sequence] {
			seen[c.Sequence] = true
			out[c.Subject] = append(out[c.Subject], c.Sequence)
		}
	}
	return out
}

// ordered fails the test unless each key's messages first succeeded in stream order, n in all, and no two of a key ran at once.
func (r *rig) ordered(n int) {
	r.t.Helper()
	total := 0
	for subject, order := range r.firstSuccesses() {
		total += len(order)
		if !slices.IsSorted(order) {
			r.t.Errorf("%s: %v", subject, order)
		}
	}
	if total != n {
		r.t.Errorf("%d of %d succeeded", total, n)
	}
	if most := r.calls.MaxConcurrentOf(func(c testutil.Call) string { return c.Subject }); most != 1 {
		r.t.Errorf("%d of one key ran at once", most)
	}
}

// Failures, and restarts in the middle: each key's messages succeed in stream order, one at a time, and keys go side by side.
func TestKeysStayInOrder(t *testing.T) {
	for _, with := range []bool{true, false} {
		t.Run(fmt.Sprintf("records %v", with), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				keyed(t, s, 1000, 20)
				r := newRig(t, s, -1)
				var mu sync.Mutex
				rng := rand.New(rand.NewPCG(1, 2))
				h := ackfloor.HandlerFunc(func(ctx context.Context, _ *ackfloor.Message) error {
					mu.Lock()
					fail, wait := rng.IntN(10) == 0, time.Duration(1+rng.IntN(20))*time.Millisecond
					mu.Unlock()
					time.Sleep(wait)
					if fail {
						return errWork
					}
					return nil
				})
				for range 2 {
					w := r.start(h, inOrder, func(c *Config) {
						if with {
							withLetters(c)
						}
					})
					time.Sleep(300 * time.Millisecond)
					w.ok(w.end())
				}
				w := r.start(h, inOrder)
				r.floor(1000, time.Minute)
				w.ok(w.end())
				r.ordered(1000)
				if most := r.calls.MaxConcurrent(); most < 12 {
					t.Errorf("at most %d ran at once", most)
				}
			})
		})
	}
}

// A message that fails holds up its own key alone, in no slot, with the delays of the policy; given up, it lets the others of its key go on.
func TestFailureHoldsItsKeyOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		keyed(t, s, 40, 4)
		r := newRig(t, s, -1)
		w := r.start(testutil.ByData(map[string]ackfloor.Handler{"4": testutil.Fail(-1, errWork)}, testutil.Sleep(10*time.Millisecond)), inOrder, withLetters,
			func(c *Config) { c.Concurrency, c.RetrySchedule = 1, "5s" })
		began := time.Now()
		r.awaitLetters(1, 2*time.Minute)
		r.floor(40, time.Second)
		if n := r.calls.Count(5); n != 5 {
			t.Errorf("%d attempts", n)
		}
		for _, c := range r.calls.Calls() {
			late := c.Start.Sub(began) > 19*time.Second
			if behind := c.Subject == "events.k0" && c.Sequence > 5; late != behind && c.Sequence != 5 {
				t.Errorf("message %d of %s began after %v", c.Sequence, c.Subject, c.Start.Sub(began))
			}
		}
		r.ordered(39)
		if i := r.floor(40, time.Second); i.Delivered.Consumer != 40 {
			t.Errorf("%d deliveries", i.Delivered.Consumer)
		}
		w.ok(w.end())
	})
}

// One key has nearly all of what may be held: others are found behind it, and don't wait.
func TestHotKeyDoesNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		s.Stream(t, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}})
		for range 900 {
			put(t, s, "events.hot", "", nil)
		}
		publishKeyed(t, s, 500, 50)
		r := newRig(t, s, -1)
		began := time.Now()
		w := r.start(testutil.Sleep(50*time.Millisecond), inOrder)
		r.floor(1400, time.Minute)
		for _, c := range r.calls.Calls() {
			if d := c.End.Sub(began); c.Subject != "events.hot" && d > 3*time.Second {
				t.Fatalf("%s ended after %v", c.Subject, d)
			}
		}
		r.ordered(1400)
		w.ok(w.end())
	})
}

// A process that died leaves messages that come again after later ones of their keys: the next one waits until all are there.
func TestOrderBehindACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		keyed(t, s, 200, 10)
		r := newRig(t, s, -1)
		for range 3 {
			w := r.start(testutil.Sleep(50*time.Millisecond), inOrder, withLetters, func(c *Config) { c.MaxAckPending = 60 })
			time.Sleep(220 * time.Millisecond)
			w.crash()
		}
		w := r.start(testutil.Sleep(10*time.Millisecond), inOrder, withLetters, func(c *Config) { c.MaxAckPending = 60 })
		r.floor(200, time.Minute)
		w.ok(w.end())
		for subject, order := range r.firstSuccesses() {
			if !slices.IsSorted(order) {
				t.Errorf("%s: %v", subject, order)
			}
		}
	})
}

// Messages without a key, or whose key can't be told, are handled without regard to order.
func TestNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 20)
		w := r.start(testutil.Sleep(time.Second), func(c *Config) {
			c.Concurrency = 20
			c.Key = func(m *ackfloor.Message) string {
				if m.Sequence%2 == 0 {
					panic("no")
				}
				return ""
			}
		})
		r.floor(20, 1500*time.Millisecond)
		if r.logged("Key panicked") != 1 || w.Status().Counts.Panics != 10 {
			t.Errorf("%d lines, %d panics", r.logged("Key panicked"), w.Status().Counts.Panics)
		}
		w.ok(w.end())
	})
}

// Deliveries are lost on the way, and come again behind later ones: no key goes on before they have.
func TestOrderBehindLostDeliveries(t *testing.T) {
	s := testutil.Server(t)
	p := s.Proxy(t)
	keyed(t, s, 100, 5)
	r := newRig(t, s, -1)
	nc, err := Connect(t.Context(), Connection{URL: p.URL()})
	must(t, err)
	w := r.startOn(nc, testutil.Sleep(time.Millisecond), inOrder)
	for i := range 3 {
		r.calls.Wait(t, 100+200*i, 10*time.Second)
		p.Hold()
		publishKeyed(t, s, 100, 5) // to a pull that is open, on a connection that is not
		p.Cut()
		p.Release()
		publishKeyed(t, s, 100, 5)
	}
	r.floor(700, 30*time.Second)
	w.ok(w.end())
	r.ordered(700)
	if w.Status().Counts.Redelivered < 100 {
		t.Error("nothing was lost on the way")
	}
}

// A lease is lost while the handler runs, and the message comes again: the key waits for the handler, and goes on with the same message.
func TestOrderBehindALostLease(t *testing.T) {
	s := testutil.Server(t)
	p := s.Proxy(t)
	keyed(t, s, 60, 3)
	r := newRig(t, s, -1)
	nc, err := Connect(t.Context(), Connection{URL: p.URL()})
	must(t, err)
	w := r.startOn(nc, testutil.ByData(map[string]ackfloor.Handler{"3": testutil.Stubborn(4 * time.Second)}, testutil.Sleep(20*time.Millisecond)), inOrder,
		func(c *Config) { c.AckWait = time.Second })
	time.Sleep(150 * time.Millisecond)
	p.Hold()
	time.Sleep(1500 * time.Millisecond)
	p.Release()
	r.floor(60, 30*time.Second)
	w.ok(w.end())
	r.ordered(60)
	if w.Status().Counts.LeasesLost == 0 {
		t.Error("no lease was lost")
	}
}

// A retry that a worker owes when it stops comes when it was due, not at once: workers that are restarted again and again use up no attempts. Later messages of the key wait.
func TestRetryDelayOutlivesStops(t *testing.T) {
	for name, h := range map[string]ackfloor.Handler{
		"RetryAfter": testutil.Fail(2, ackfloor.RetryAfter(10*time.Second, errWork)),
		"a policy":   testutil.Fail(2, errWork),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 0)
				publish(t, s, "events.bad", "events.good", "events.good")
				began := time.Now()
				handlers := testutil.ByData(map[string]ackfloor.Handler{"events.bad": h}, testutil.Succeed())
				for time.Since(began) < 30*time.Second {
					w := r.start(handlers, withLetters, func(c *Config) {
						c.Key = func(*ackfloor.Message) string { return "one" }
						c.MaxAttempts, c.PullExpiry = 3, 100*time.Millisecond
						c.Retry = func(int, error) (time.Duration, bool) { return 10 * time.Second, true }
					})
					time.Sleep(1300 * time.Millisecond)
					w.ok(w.end())
				}
				starts := r.startTimes(1)
				if len(starts) != 3 {
					t.Fatalf("%d calls, want 3", len(starts))
				}
				for i := 1; i < len(starts); i++ {
					if d := starts[i].Sub(starts[i-1]); d < 10*time.Second || d > 13*time.Second {
						t.Errorf("retry %d came after %v", i, d)
					}
				}
				if got := r.calls.Sequences(); !slices.Equal(got, []uint64{1, 1, 1, 2, 3}) {
					t.Errorf("handled %v", got)
				}
				if n := r.logged("a suspect"); n > 0 || len(r.letters()) > 0 {
					t.Errorf("suspected %d times, %d letters", n, len(r.letters()))
				}
			})
		})
	}
}

// The same where such a message waits for a slot when the worker stops: it is handed back, and not handled early.
func TestOwedRetryInADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		handlers := testutil.ByData(map[string]ackfloor.Handler{"events.bad": testutil.Fail(1, ackfloor.RetryAfter(time.Minute, errWork))}, testutil.Sleep(3*time.Second))
		one := func(c *Config) {
			c.Key, c.Concurrency, c.Prefetch = func(m *ackfloor.Message) string { return m.Subject }, 1, 1
		}
		owes := r.start(handlers, withLetters, one)
		publish(t, s, "events.bad")
		r.calls.WaitStarted(t, 1, time.Minute)
		time.Sleep(time.Second)
		owes.pull.mu.Lock()
		owes.pull.notBefore = never
		owes.pull.mu.Unlock()
		time.Sleep(2 * time.Second) // its pull has ended
		w := r.inAnotherProcess(handlers, withLetters, one)
		publish(t, s, "events.slow")
		r.calls.WaitStarted(t, 2, time.Minute)
		owes.ok(owes.end())
		time.Sleep(time.Second)
		if n, _, _ := w.buf.count(); n != 1 {
			t.Fatalf("%d messages wait", n)
		}
		w.ok(w.end())
		if n, back := r.calls.Count(1), w.Status().Counts.Returned; n != 1 || back != 1 {
			t.Fatalf("%d calls, %d handed back", n, back)
		}
		last := r.start(handlers, withLetters, one)
		r.floor(2, 2*time.Minute)
		if starts := r.startTimes(1); len(starts) != 2 || starts[1].Sub(starts[0]) < time.Minute {
			t.Errorf("called at %v", starts)
		}
		last.ok(last.end())
	})
}
