package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// A stop wakes what waits for a retry, however far off that is and wherever it waits; the next worker has the message when the delay has passed, or at once where it
// keeps the order of keys.
func TestStopWakesRetries(t *testing.T) {
	for name, tt := range map[string]struct {
		delay  time.Duration
		change func(*Config)
	}{
		"here, a short one":       {900 * time.Millisecond, withLetters},
		"here, behind its key":    {time.Minute, func(c *Config) { withLetters(c); inOrder(c) }},
		"at the server":           {5 * time.Second, withLetters},
		"at the server, no books": {5 * time.Second, func(*Config) {}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 0)
				put(t, s, "events.a", "0", nil)
				w := r.start(testutil.Fail(1, errWork), tt.change, func(c *Config) { c.RetrySchedule, c.PullExpiry = tt.delay.String(), 200*time.Millisecond })
				r.calls.Wait(t, 1, time.Second)
				failed := time.Now()
				time.Sleep(50 * time.Millisecond)
				w.ok(w.end())
				if w.took > 300*time.Millisecond {
					t.Errorf("it took %v to stop", w.took)
				}
				next := r.start(testutil.Succeed(), tt.change)
				r.floor(1, tt.delay+3*time.Second)
				next.ok(next.end())
				starts := r.startTimes(1)
				least, most := tt.delay-100*time.Millisecond, tt.delay+2*time.Second
				if d := starts[len(starts)-1].Sub(failed); len(starts) != 2 || d < least || d > most {
					t.Errorf("%d attempts, the last %v after the failure", len(starts), d)
				}
			})
		})
	}
}

// The lease of a message whose handler was left behind is not extended any more; what that handler returns all the same settles it where nobody else has it.
func TestAbandonedHandlerKeepsNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		w := r.start(testutil.Stubborn(20*time.Second), func(c *Config) { c.DrainTimeout = 300 * time.Millisecond })
		r.calls.WaitStarted(t, 1, time.Second)
		if err := w.end(); err == nil || w.took > 500*time.Millisecond {
			t.Fatalf("Run returned %v after %v", err, w.took)
		}
		heard, err := s.Conn(t).SubscribeSync("$JS.ACK.>")
		must(t, err)
		time.Sleep(25 * time.Second)
		for range 2 {
			m, err := heard.NextMsgWithContext(soonOver(t))
			if err == nil && string(m.Data) != "+ACK" {
				t.Errorf("behind the end it sends %q", m.Data)
			}
		}
		r.floor(1, time.Second)
		r.onceEach(1)
	})
}

// soonOver is a context that ends soon.
func soonOver(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// Over TCP: two hundred workers that are stopped as their handler ends, and whose connection is closed behind that. None of the next sees a redelivery.
func TestLastAcksAreConfirmedOverTCP(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	r := newRig(t, s, 200)
	for i := range 200 {
		gate := make(chan struct{})
		w := r.start(testutil.Block(gate), func(c *Config) {
			c.Concurrency, c.MaxAckPending, c.PullExpiry, c.AckWait = 1, 1, 100*time.Millisecond, 10*time.Second
		})
		r.calls.WaitStarted(t, i+1, 30*time.Second)
		go close(gate)
		w.ok(w.end())
		w.nc.Close()
		if n := w.Status().Counts.Redelivered; n != 0 {
			t.Fatalf("round %d: %d redelivered", i, n)
		}
	}
	if info := r.floor(200, 30*time.Second); info.NumRedelivered != 0 {
		t.Errorf("redelivered %d", info.NumRedelivered)
	}
	r.onceEach(200)
}

// A stop may come at any moment, the first milliseconds too: worker after worker is stopped a little later, with messages that come meanwhile on pulls that wait. Each is handled
// once, and delivered once.
func TestStopAtAnyMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		s.Consumer(t, rigStream, wanted(r.cfg))
		nc := s.Conn(t)
		const n = 3000
		var posting sync.WaitGroup
		posting.Go(func() {
			for range n {
				if err := nc.Publish("events.x", nil); err != nil {
					t.Error(err)
				}
				time.Sleep(1300 * time.Microsecond)
			}
		})
		workers := 0
		for ; s.Info(t, rigStream, rigConsumer).AckFloor.Stream < n && workers < 400; workers++ {
			w := r.start(testutil.Sleep(3*time.Millisecond), withLetters, func(c *Config) { c.PullExpiry = 100 * time.Millisecond })
			time.Sleep(time.Duration(workers%40) * 1700 * time.Microsecond)
			w.ok(w.end())
			w.nc.Close()
		}
		posting.Wait()
		if info := r.floor(n, 5*time.Second); info.Delivered.Consumer != n {
			t.Errorf("%d deliveries of %d messages", info.Delivered.Consumer, n)
		}
		r.onceEach(n)
		if workers < 20 {
			t.Errorf("%d workers", workers)
		}
	})
}

// What happens in the middle of a drain, with four handlers of 400 ms that run: it ends by itself within its limits, and nothing is handled twice.
func TestFaultsInADrain(t *testing.T) {
	for name, tt := range map[string]struct {
		fault func(t *testing.T, s *testutil.S, w *running)
		err   error // that Run returns; nil: none
		twice bool  // what was held may be handled again
	}{
		"the server restarts": {fault: func(_ *testing.T, s *testutil.S, _ *running) { s.Restart() }},
		"the server restarts three times": {fault: func(_ *testing.T, s *testutil.S, _ *running) {
			for range 3 {
				s.Restart()
				time.Sleep(120 * time.Millisecond)
			}
		}},
		"the server is away for two seconds": {fault: func(_ *testing.T, s *testutil.S, _ *running) {
			s.Stop()
			time.Sleep(2 * time.Second)
			s.Start()
		}},
		"the client is kicked": {fault: func(t *testing.T, s *testutil.S, w *running) {
			id, err := w.nc.GetClientID()
			must(t, err)
			must(t, s.Server().DisconnectClientByID(id))
		}},
		"the consumer is paused": {fault: func(t *testing.T, s *testutil.S, _ *running) {
			_, err := s.JetStream(t).PauseConsumer(t.Context(), rigStream, rigConsumer, time.Now().Add(time.Second))
			must(t, err)
		}},
		"max_ack_pending is lowered": {fault: func(t *testing.T, s *testutil.S, w *running) {
			cfg := w.bound.info.Config
			cfg.MaxAckPending = 1
			s.Consumer(t, rigStream, cfg)
		}},
		"its messages are deleted": {fault: func(t *testing.T, s *testutil.S, _ *running) {
			stream, err := s.JetStream(t).Stream(t.Context(), rigStream)
			must(t, err)
			for seq := range uint64(4) {
				must(t, stream.DeleteMsg(t.Context(), seq+1))
			}
		}},
		"the consumer is deleted": {fault: func(t *testing.T, s *testutil.S, _ *running) {
			must(t, s.JetStream(t).DeleteConsumer(t.Context(), rigStream, rigConsumer))
		}, err: ErrConsumerDeleted, twice: true},
		"the stream is deleted": {fault: func(t *testing.T, s *testutil.S, _ *running) {
			must(t, s.JetStream(t).DeleteStream(t.Context(), rigStream))
		}, err: ErrConsumerDeleted, twice: true},
		"its connection is closed": {fault: func(_ *testing.T, _ *testutil.S, w *running) { w.nc.Close() }, err: nats.ErrConnectionClosed, twice: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 20)
				time.Sleep(3 * time.Second) // the backlog is older than ack_wait
				w := r.startOn(connectLikeWorker(t, s), testutil.Sleep(400*time.Millisecond))
				r.calls.WaitStarted(t, 4, time.Second)
				time.Sleep(50 * time.Millisecond)
				w.stop()
				time.Sleep(50 * time.Millisecond)
				tt.fault(t, s, w)
				if err := w.wait(10 * time.Second); !errors.Is(err, tt.err) || w.took > 6*time.Second {
					t.Errorf("Run returned %v after %v, want %v", err, w.took, tt.err)
				}
				if tt.twice {
					return
				}
				next := r.start(testutil.Succeed())
				r.floor(20, 10*time.Second)
				next.ok(next.end())
				r.onceEach(20)
			})
		})
	}
}

// The server is away for longer than the drain may take: it ends all the same, says what is not confirmed, and no more than that comes again.
func TestDrainEndsWithoutTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 20)
		w := r.startOn(connectLikeWorker(t, s), testutil.Sleep(400*time.Millisecond), func(c *Config) { c.DrainTimeout = time.Second })
		r.calls.WaitStarted(t, 4, time.Second)
		s.Stop()
		err := w.end()
		var broken *DrainError
		if !errors.As(err, &broken) || broken.Unconfirmed == 0 || broken.Unconfirmed > 8 || broken.ExitCode() != 75 || w.took > 4500*time.Millisecond {
			t.Fatalf("Run returned %v after %v", err, w.took)
		}
		w.nc.Close()
		held := len(r.calls.Calls())
		s.Start()
		next := r.start(testutil.Succeed())
		r.floor(20, 10*time.Second)
		next.ok(next.end())
		if again := len(r.calls.Calls()) - 20; again > held || r.calls.Distinct() != 20 {
			t.Errorf("%d handled again, %d were held", again, held)
		}
	})
}

// A stop of any kind of worker that waits for something other than a handler: it does not wait with it.
func TestStopWhileSomethingIsAwaited(t *testing.T) {
	slow := errors.New("not now")
	for name, tt := range map[string]struct {
		h      ackfloor.Handler
		change func(*Config)
		before func(t *testing.T, s *testutil.S)
		most   time.Duration
	}{
		"a paused consumer": {testutil.Succeed(), func(*Config) {}, func(t *testing.T, s *testutil.S) {
			_, err := s.JetStream(t).PauseConsumer(t.Context(), rigStream, rigConsumer, time.Now().Add(time.Hour))
			must(t, err)
		}, 1200 * time.Millisecond},
		"a batch that fills": {batchRig{&batchLog{}}, func(c *Config) { c.BatchSize, c.BatchLinger, c.Concurrency = 100, time.Hour, 1 }, nil, 1200 * time.Millisecond},
		"a pause of an hour": {testutil.Fail(1, ackfloor.Pause(time.Hour, slow)), func(*Config) {}, nil, 1200 * time.Millisecond},
		"a gate":             {testutil.Succeed(), func(c *Config) { c.Gate, c.DrainTimeout = shutGate, 500*time.Millisecond }, nil, 2 * time.Second},
		"a pull of a minute": {testutil.Succeed(), func(c *Config) { c.PullExpiry, c.DrainTimeout = time.Minute, time.Second }, nil, 2 * time.Second},
		"nothing to do":      {testutil.Succeed(), func(*Config) {}, func(t *testing.T, _ *testutil.S) { time.Sleep(10 * time.Minute) }, 1200 * time.Millisecond},
		"a stream that is sealed": {testutil.Succeed(), func(*Config) {}, func(t *testing.T, s *testutil.S) {
			stream, err := s.JetStream(t).Stream(t.Context(), rigStream)
			must(t, err)
			cfg := stream.CachedInfo().Config
			cfg.Sealed = true
			_, err = s.JetStream(t).UpdateStream(t.Context(), cfg)
			must(t, err)
		}, 1200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 5)
				w := r.start(tt.h, tt.change)
				w.working()
				time.Sleep(500 * time.Millisecond)
				if tt.before != nil {
					tt.before(t, s)
				}
				time.Sleep(500 * time.Millisecond)
				err := w.end()
				var broken *DrainError
				if err != nil && !(errors.As(err, &broken) && name == "a gate") || w.took > tt.most {
					t.Errorf("Run returned %v after %v", err, w.took)
				}
				if held := w.holds(); held != "" && name != "a pause of an hour" {
					t.Errorf("at the end it has %s", held)
				}
				if name == "a paused consumer" {
					_, err := s.JetStream(t).ResumeConsumer(t.Context(), rigStream, rigConsumer)
					must(t, err)
				}
				next := r.start(testutil.Succeed())
				r.floor(5, 5*time.Second)
				next.ok(next.end())
			})
		})
	}
}

// shutGate lets nobody through.
var shutGate = gateFunc(func(ctx context.Context, _ *ackfloor.Message) (func(error), error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
})

// Who stops a worker is of no matter: its parent's deadline, a handler of its own, one that panics at that moment, or one that ends its goroutine.
func TestStopsOfManyKinds(t *testing.T) {
	var stop atomic.Pointer[context.CancelFunc]
	stopping := func(then ackfloor.Handler) ackfloor.Handler {
		return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
			if m.Sequence == 3 && m.Attempt == 1 {
				(*stop.Load())()
				time.Sleep(10 * time.Millisecond)
				return then.Handle(ctx, m)
			}
			return nil
		})
	}
	for name, h := range map[string]ackfloor.Handler{
		"a handler": stopping(testutil.Succeed()), "one that fails": stopping(testutil.Fail(-1, errWork)), "one that panics": stopping(testutil.Panic("now")),
		"one that calls Goexit": stopping(testutil.Goexit()), "a deadline": testutil.Sleep(5 * time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, testutil.Bubble(t), 200)
				w := r.make(r.s.Conn(t), h, withLetters, func(c *Config) { c.Concurrency = 1 })
				ctx, cancel := context.WithCancel(t.Context())
				if name == "a deadline" {
					ctx, cancel = context.WithTimeout(t.Context(), 30*time.Millisecond)
				}
				defer cancel()
				stop.Store(&cancel)
				must(t, w.Runner.Run(ctx))
				next := r.start(testutil.Succeed(), withLetters)
				r.floor(200, 5*time.Second)
				next.ok(next.end())
				if again := len(r.calls.Calls()) - 200; again > 1 || r.calls.Distinct() != 200 {
					t.Errorf("%d handled again", again)
				}
			})
		})
	}
}

// With real processes: SIGTERM while the server is down. One that holds nothing ends at once and well, one whose handler can't be settled within its limits.
func TestSIGTERMWithoutTheServer(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	s.Events(t, 4)
	idle := spawn(t, "main", s.URL(), "", "WORKER_CONSUMER=idle", "WORK=1ms")
	idle.waitFor("end", 4, 30*time.Second)
	s.WaitInfo(t, rigStream, "idle", 30*time.Second, "all settled", floorAt(4))
	busy := spawn(t, "main", s.URL(), "", "WORK=2s", "WORKER_DRAIN_TIMEOUT=3s", "WORKER_ACK_WAIT=30s")
	busy.waitFor("start", 4, 30*time.Second)
	s.Stop()
	time.Sleep(200 * time.Millisecond)
	idle.signal(syscall.SIGTERM)
	busy.signal(syscall.SIGTERM)
	if code, took := idle.exit(30 * time.Second); code != 0 || took > 5*time.Second {
		t.Errorf("idle: exit code %d after %v", code, took)
	}
	code, took := busy.exit(30 * time.Second)
	if code != 75 || took > 15*time.Second || !strings.Contains(busy.stderr.String(), "not confirmed") {
		t.Errorf("busy: exit code %d after %v", code, took)
	}
	if started, ended := events(t, busy.out, "start"), events(t, busy.out, "end"); len(ended) != 4 || len(started) != 4 {
		t.Errorf("%d started, %d ended", len(started), len(ended))
	}
}

// In a cluster of three, with a backlog that is older than ack_wait and handlers of one second: the consumer's leader moves while they run, and in the middle of a drain; then the
// server that the worker is connected to goes into lame duck mode. Nothing is handled twice.
func TestClusterMovesInADrain(t *testing.T) {
	t.Parallel()
	c := testutil.Cluster(t, 3, func(o *server.Options) {
		o.LameDuckDuration, o.LameDuckGracePeriod = 500*time.Millisecond, 50*time.Millisecond
	})
	r := newRig(t, c, 60)
	r.cfg.AckWait = 3 * time.Second
	time.Sleep(3100 * time.Millisecond)
	for round := 0; ; round++ {
		nc, err := Connect(t.Context(), Connection{URL: c.URL()})
		must(t, err)
		w := r.startOn(nc, testutil.Sleep(time.Second), func(c *Config) { c.StartupTimeout, c.DrainTimeout, c.Concurrency = 30*time.Second, 20*time.Second, 8 })
		w.working()
		r.calls.WaitStarted(t, min(60, len(r.calls.Calls())+8), 30*time.Second)
		time.Sleep(400 * time.Millisecond)
		switch round {
		case 0:
			c.MoveConsumerLeader(t, rigStream, rigConsumer)
			time.Sleep(300 * time.Millisecond)
			w.stop()
			time.Sleep(50 * time.Millisecond)
			c.MoveConsumerLeader(t, rigStream, rigConsumer)
		case 1:
			i := connectedTo(t, c, nc)
			go c.Servers()[i].LameDuckShutdown()
			time.Sleep(100 * time.Millisecond)
			w.stop()
			defer c.StopServer(i)
		default:
			c.MoveConsumerLeader(t, rigStream, rigConsumer)
			r.floor(60, time.Minute)
			w.ok(w.end())
			r.onceEach(60)
			return
		}
		w.ok(w.wait(30 * time.Second))
		nc.Close()
	}
}

// connectedTo tells which server of a cluster a client is connected to.
func connectedTo(t *testing.T, c *testutil.C, nc *nats.Conn) int {
	t.Helper()
	for i := range c.Servers() {
		if nc.ConnectedServerName() == fmt.Sprintf("n%d", i) {
			return i
		}
	}
	t.Fatalf("connected to %q", nc.ConnectedServerName())
	return -1
}

// The grace ends while a slot looks up what is known of a message: it goes back, and its handler is not called when the answer comes at last.
func TestNothingBeginsBehindTheGrace(t *testing.T) {
	for _, way := range []string{"", "batch"} {
		t.Run("mode "+way, func(t *testing.T) {
			mode = way
			defer func() { mode = "" }()
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 1)
				s.Consumer(t, rigStream, wanted(r.cfg))
				for _, m := range r.fetch(rigStream, rigConsumer, 1) {
					must(t, m.NakWithDelay(5*time.Second))
				}
				w := r.start(testutil.Succeed(), withLetters, func(c *Config) { c.DrainTimeout, c.PullExpiry = 200*time.Millisecond, 100*time.Millisecond })
				kv := &slowKV{flakyKV: flakyKV{KeyValue: w.flaky().KeyValue}}
				w.records.kv = kv
				kv.getDelay.Store(int64(900 * time.Millisecond))
				for w.Status().Running == 0 {
					time.Sleep(10 * time.Millisecond)
				}
				_ = w.end()
				time.Sleep(5 * time.Second)
				if n := len(r.calls.Calls()); n != 0 {
					t.Errorf("%d calls behind the grace", n)
				}
				next := r.start(testutil.Succeed(), withLetters)
				r.floor(1, 5*time.Second)
				next.ok(next.end())
				r.onceEach(1)
			})
		})
	}
}
