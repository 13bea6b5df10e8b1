package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

// With ack_wait 1 s, handlers of 300 ms in one slot, and of 10 and 900 ms in four: a hundred messages are delivered once each, as the server counts them.
func TestNothingIsDeliveredAgainBehindSlowHandlers(t *testing.T) {
	for name, tt := range map[string]struct {
		concurrency int
		takes       func(uint64) time.Duration
	}{"one slot": {1, func(uint64) time.Duration { return 300 * time.Millisecond }}, "four slots": {4, mixed}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, testutil.Bubble(t), 100)
				w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
					time.Sleep(tt.takes(m.Sequence))
					return nil
				}), func(c *Config) { c.Concurrency, c.AckWait = tt.concurrency, time.Second })
				time.Sleep(45 * time.Second)
				info := r.floor(100, time.Minute)
				if info.Delivered.Consumer != 100 || info.NumRedelivered != 0 {
					t.Errorf("%d deliveries, %d redelivered", info.Delivered.Consumer, info.NumRedelivered)
				}
				r.onceEach(100)
				w.ok(w.end())
			})
		})
	}
}

// The lease is the consumer's, whatever a process is configured with: two processes with other ack_waits than it has keep the messages that they hold.
func TestLeaseIsTheConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 40)
		first := r.cfg
		first.AckWait = time.Second
		s.Consumer(t, rigStream, wanted(first))
		a := r.start(testutil.Sleep(3*time.Second), func(c *Config) { c.AckWait = time.Minute })
		a.working()
		b := r.inAnotherProcess(testutil.Sleep(3*time.Second), func(c *Config) { c.AckWait = 10 * time.Second })
		time.Sleep(25 * time.Second)
		info := r.floor(40, time.Minute)
		if info.Delivered.Consumer != 40 || a.leaseTime() != time.Second || b.leaseTime() != time.Second {
			t.Errorf("%d deliveries, leases of %v and %v", info.Delivered.Consumer, a.leaseTime(), b.leaseTime())
		}
		r.onceEach(40)
		for _, w := range []*running{a, b} {
			w.ok(w.end())
			if len(w.Status().Drift) != 1 {
				t.Errorf("it reports %v", w.Status().Drift)
			}
		}
	})
}

// ack_wait is lowered from 30 s to 1 s under handlers that take longer: what comes again meanwhile is known, and not handled a second time.
func TestAckWaitIsLoweredUnderHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 20)
		w := r.start(testutil.Sleep(8*time.Second), func(c *Config) { c.AckWait = 30 * time.Second })
		r.calls.WaitStarted(t, 4, time.Second)
		cfg := w.bound.info.Config
		cfg.AckWait = time.Second
		s.Consumer(t, rigStream, cfg)
		time.Sleep(35 * time.Second)
		r.floor(20, 2*time.Minute)
		r.onceEach(20)
		w.ok(w.end())
	})
}

// The shortest lease that is taken, and handlers ten times as long.
func TestShortestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 20)
		w := r.start(testutil.Sleep(time.Second), func(c *Config) { c.AckWait = 100 * time.Millisecond })
		time.Sleep(5 * time.Second)
		if info := r.floor(20, 10*time.Second); info.Delivered.Consumer != 20 {
			t.Errorf("%d deliveries", info.Delivered.Consumer)
		}
		r.onceEach(20)
		w.ok(w.end())
	})
}

// Who lost a lease and works on meets who has the message by now: each settles, the floor moves on, the message is in neither's way, and what is late is said to be.
func TestTwoSettleOneMessage(t *testing.T) {
	for name, last := range map[string]error{"both succeed": nil, "the late one gives up": ackfloor.Permanent(errWork)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testutil.Server(t)
			proxy := s.Proxy(t)
			r := newRig(t, s, 1)
			nc, err := Connect(t.Context(), Connection{URL: proxy.URL()})
			must(t, err)
			withdrawn := make(chan struct{})
			a := r.startOn(nc, ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
				if m.Sequence > 1 {
					return nil
				}
				<-withdrawn
				return last
			}), withLetters)
			r.calls.WaitStarted(t, 1, 30*time.Second)
			proxy.Hold()
			var other testutil.Recorder
			b := r.inAnotherProcess(other.Wrap(testutil.Sleep(700*time.Millisecond)), withLetters)
			other.WaitStarted(t, 1, 30*time.Second)
			for deadline := time.Now().Add(30 * time.Second); a.Status().Counts.LeasesLost == 0 && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond)
			}
			proxy.Release()
			close(withdrawn)
			r.floor(1, 30*time.Second)
			s.Events(t, 20)
			r.floor(21, 30*time.Second)
			a.ok(a.end())
			b.ok(b.end())
			if n := a.Status().Counts.LeasesLost; n < 1 || r.logged("a lease is lost") < 1 {
				t.Errorf("%d leases lost", n)
			}
			if c := other.Count(1); c == 0 || r.calls.Distinct() != 21 {
				t.Errorf("the other handled it %d times, %d messages in all", c, r.calls.Distinct())
			}
		})
	}
}
