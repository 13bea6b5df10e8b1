package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// What waits behind slow messages keeps its lease.
func TestWaitingKeepsItsLease(t *testing.T) {
	for name, tc := range map[string]struct {
		concurrency, prefetch int
		handle                func(seq uint64) time.Duration
	}{
		"one slow slot":               {1, 0, func(uint64) time.Duration { return 300 * time.Millisecond }},
		"one slow slot, many waiting": {1, 20, func(uint64) time.Duration { return 300 * time.Millisecond }},
		"four slots, mixed":           {4, 0, mixed}, "four slots, mixed, many waiting": {4, 40, mixed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, testutil.Bubble(t), 60)
				w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
					time.Sleep(tc.handle(m.Sequence))
					return nil
				}), func(c *Config) { c.Concurrency, c.Prefetch, c.AckWait = tc.concurrency, tc.prefetch, time.Second })
				r.floor(60, time.Minute)
				r.onceEach(60)
				c := w.Status().Counts
				if c.Redelivered != 0 || c.LeasesLost != 0 {
					t.Errorf("redelivered %d, leases lost %d", c.Redelivered, c.LeasesLost)
				}
				w.ok(w.end())
			})
		})
	}
}

func mixed(seq uint64) time.Duration {
	if seq%3 == 0 {
		return 900 * time.Millisecond
	}
	return 10 * time.Millisecond
}

// A message that is there is handled at once, and one that comes later as soon as it is stored.
func TestFirstMessageIsHandledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		began := time.Now()
		w := r.start(testutil.Succeed())
		first := r.calls.WaitStarted(t, 1, time.Second)[0].Start
		if d := first.Sub(began); d > 100*time.Millisecond {
			t.Errorf("the first handler began after %v", d)
		}
		time.Sleep(700 * time.Millisecond) // into an open pull
		published := time.Now()
		s.Events(t, 1)
		second := r.calls.WaitStarted(t, 2, time.Second)[1].Start
		if d := second.Sub(published); d > 20*time.Millisecond {
			t.Errorf("the second handler began after %v", d)
		}
		w.ok(w.end())
	})
}

// A lease that can't be extended any more ends the handler, and what it returns late is said to be late.
func TestLostLeaseEndsHandler(t *testing.T) {
	for name, tc := range map[string]struct {
		result  error
		counted func(Counts) bool
	}{
		"late success": {nil, func(c Counts) bool { return c.Late == 1 && c.Acked == 1 }},
		"late failure": {errors.New("too late"), func(c Counts) bool { return c.Late == 1 && c.Retried == 0 && c.Terminated == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			s := testutil.Server(t)
			proxy := s.Proxy(t)
			r := newRig(t, s, 1)
			nc, err := Connect(t.Context(), Connection{URL: proxy.URL()})
			must(t, err)
			cause := make(chan error, 1)
			w := r.startOn(nc, ackfloor.HandlerFunc(func(ctx context.Context, _ *ackfloor.Message) error {
				select {
				case <-ctx.Done():
					cause <- context.Cause(ctx)
					return tc.result
				case <-time.After(5 * time.Second):
					return errors.New("nobody told the handler")
				}
			}), func(c *Config) { c.AckWait = time.Second })
			r.calls.WaitStarted(t, 1, 2*time.Second)
			time.Sleep(100 * time.Millisecond)
			proxy.Hold()
			held := time.Now()
			select {
			case err := <-cause:
				if d := time.Since(held); !errors.Is(err, ackfloor.ErrLeaseLost) || d > 2*time.Second {
					t.Errorf("the context ended after %v with %v", d, err)
				}
			case <-time.After(3 * time.Second):
				t.Fatal("the context has not ended")
			}
			for deadline := time.Now().Add(time.Second); !tc.counted(w.Status().Counts) && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond)
			}
			if c := w.Status().Counts; !tc.counted(c) || c.LeasesLost != 1 {
				t.Errorf("counts: %+v", c)
			}
			if r.logged("a lease is lost") != 1 || r.logged("late") != 1 {
				t.Errorf("the log: %v", r.logs.All())
			}
			proxy.Release()
		})
	}
}

// A handler that hangs does not keep its lease: another worker has the message after the handle timeout and ack_wait.
func TestHungHandlerLosesItsLease(t *testing.T) {
	for name, hung := range map[string]ackfloor.Handler{"ignores its context": testutil.Stubborn(30 * time.Second), "asleep": testutil.Sleep(time.Hour)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, testutil.Bubble(t), 1)
				a := r.start(hung, func(c *Config) { c.HandleTimeout, c.DrainTimeout = time.Second, time.Second })
				r.calls.WaitStarted(t, 1, time.Second)
				began := time.Now()
				var other testutil.Recorder
				// The second worker stands for one in another process: in one process a durable has one Runner.
				b := r.inAnotherProcess(other.Wrap(testutil.Succeed()))
				other.WaitStarted(t, 1, 5*time.Second)
				if d := time.Since(began); d < 900*time.Millisecond || d > time.Second+2*time.Second+500*time.Millisecond {
					t.Errorf("the other worker had it after %v", d)
				}
				// One that looks at its context may have returned, with a failure that names the timeout, before the lease loop saw it.
				if r.logged("handle timeout has passed")+r.logged("failed") == 0 {
					t.Error("no line says that the handle timeout has passed")
				}
				r.floor(1, time.Second)
				b.ok(b.end())
				_ = a.end()
				time.Sleep(30 * time.Second) // for the stubborn one to end inside the bubble
			})
		})
	}
}

// inAnotherProcess starts a second Runner on the rig's consumer, as another process would have one.
func (r *rig) inAnotherProcess(h ackfloor.Handler, change ...func(*Config)) *running {
	r.t.Helper()
	taken := map[any]any{}
	claims.Range(func(k, v any) bool { taken[k] = v; claims.Delete(k); return true })
	w := r.start(h, change...)
	w.working()
	return w
}

// On one server: a backlog that is older than ack_wait, the server restarted while handlers run.
func TestRestartDoesNotRedeliverWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 60)
		time.Sleep(10 * time.Second) // the backlog is older than ack_wait
		w := r.startOn(connectLikeWorker(t, s), testutil.Sleep(time.Second))
		var other testutil.Recorder
		w.working()
		b := r.inAnotherProcess(other.Wrap(testutil.Sleep(time.Second)))
		for range 4 {
			time.Sleep(1700 * time.Millisecond)
			s.Restart()
		}
		r.floor(60, time.Minute)
		r.onceEach(60) // of both: other.Wrap is inside the rig's recorder
		w.ok(w.end())
		b.ok(b.end())
	})
}

// In a cluster: the consumer's leader moves while handlers run on an old backlog.
func TestMovedLeaderDoesNotRedeliverWhatIsHeld(t *testing.T) {
	noLeaks(t)
	c := testutil.Cluster(t, 3)
	r := newRig(t, c, 60)
	time.Sleep(2100 * time.Millisecond)
	nc, err := Connect(t.Context(), Connection{URL: c.URL()})
	must(t, err)
	w := r.startOn(nc, testutil.Sleep(500*time.Millisecond), func(c *Config) { c.StartupTimeout = 20 * time.Second })
	w.working()
	r.calls.WaitStarted(t, 1, 10*time.Second)
	for range 4 {
		time.Sleep(1100 * time.Millisecond)
		c.MoveConsumerLeader(t, rigStream, rigConsumer)
	}
	r.floor(60, time.Minute)
	r.onceEach(60)
	// Without the early stamps all four that run come again at each move; with them, at most one that came in at that moment.
	if counts := w.Status().Counts; counts.LeasesLost != 0 || counts.Redelivered > 4 {
		t.Errorf("%+v", counts)
	}
	w.ok(w.end())
}

// A redelivery of a message that is running is not run a second time; its newest reply subject settles it.
func TestRedeliveryOfWhatRunsIsNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		release := make(chan struct{})
		w := r.start(testutil.Block(release))
		r.calls.WaitStarted(t, 1, time.Second)
		// What a leader that was killed before it stored our stamp does: hand it out again.
		w.buf.mu.Lock()
		reply := w.buf.held.get(1).reply
		w.buf.mu.Unlock()
		must(t, w.nc.Publish(reply, nakPlain))
		for i := 0; w.Status().Counts.Redelivered == 0; i++ {
			time.Sleep(10 * time.Millisecond)
			if i > 500 {
				t.Fatal("it was not delivered again")
			}
		}
		close(release)
		r.s.WaitInfo(t, rigStream, rigConsumer, time.Second, "floor 1", func(i *jetstream.ConsumerInfo) bool { return i.AckFloor.Stream == 1 })
		r.onceEach(1)
		w.ok(w.end())
	})
}
