package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// After the server's restart the worker goes on, whether it was idle or busy, and nothing is handled twice.
func TestGoesOnAfterServerRestart(t *testing.T) {
	for name, tc := range map[string]struct {
		down time.Duration
		idle bool
	}{
		"idle, down 1s": {time.Second, true}, "busy, down 1s": {time.Second, false},
		"idle, down 10s": {10 * time.Second, true}, "busy, down 10s": {10 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 0)
				w := r.startOn(connectLikeWorker(t, s), testutil.Sleep(20*time.Millisecond))
				w.working()
				if !tc.idle {
					s.Events(t, 50)
					r.calls.Wait(t, 5, time.Second)
				}
				s.Stop()
				time.Sleep(tc.down)
				if s := w.Status(); s.Ready || !s.Alive {
					t.Errorf("while the server is down: ready %v, alive %v", s.Ready, s.Alive)
				}
				s.Start()
				back := time.Now()
				s.Events(t, 50)
				n := uint64(100)
				if tc.idle {
					n = 50
				}
				r.floor(n, 3*time.Second)
				t.Logf("all handled %v after the return", time.Since(back))
				r.onceEach(int(n))
				if s := w.Status(); !s.Ready {
					t.Errorf("not ready: %s", s.Reason)
				}
				w.ok(w.end())
			})
		})
	}
}

// connectLikeWorker connects with the options of Connect, inside a bubble.
func connectLikeWorker(t *testing.T, s *testutil.S) *nats.Conn {
	t.Helper()
	opts, err := Connection{}.options()
	if err != nil {
		t.Fatal(err)
	}
	return s.Conn(t, opts...)
}

// A connection that is closed for good ends Run with an error that says so.
func TestClosedConnectionEndsRun(t *testing.T) {
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			if busy {
				n = 100
			}
			r := newRig(t, testutil.Bubble(t), n)
			w := r.start(testutil.Sleep(50 * time.Millisecond))
			w.working()
			w.nc.Close()
			if err := w.wait(2 * time.Second); !errors.Is(err, nats.ErrConnectionClosed) {
				t.Errorf("busy %v: Run returned %v", busy, err)
			}
			if s := w.Status(); s.Ready {
				t.Error("it says that it is ready")
			}
		})
	}
}

// A consumer or a stream that is deleted, also when it is created again, ends Run within a second; nothing is re-created.
func TestDeletedConsumerEndsRun(t *testing.T) {
	for name, fault := range map[string]func(t *testing.T, ctx context.Context, js jetstream.JetStream){
		"consumer": func(t *testing.T, ctx context.Context, js jetstream.JetStream) {
			must(t, js.DeleteConsumer(ctx, rigStream, rigConsumer))
		},
		"stream": func(t *testing.T, ctx context.Context, js jetstream.JetStream) {
			must(t, js.DeleteStream(ctx, rigStream))
		},
		"consumer, created again": func(t *testing.T, ctx context.Context, js jetstream.JetStream) {
			must(t, js.DeleteConsumer(ctx, rigStream, rigConsumer))
			_, err := js.CreateConsumer(ctx, rigStream, wanted(Config{Consumer: rigConsumer, AckWait: 2 * time.Second}))
			must(t, err)
		},
		"stream, created again": func(t *testing.T, ctx context.Context, js jetstream.JetStream) {
			must(t, js.DeleteStream(ctx, rigStream))
			_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}})
			must(t, err)
			_, err = js.CreateConsumer(ctx, rigStream, wanted(Config{Consumer: rigConsumer, AckWait: 2 * time.Second}))
			must(t, err)
		},
	} {
		for _, busy := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := testutil.Bubble(t)
					n := 0
					if busy {
						n = 20
					}
					r := newRig(t, s, n)
					w := r.start(testutil.Sleep(200 * time.Millisecond))
					if busy {
						r.calls.WaitStarted(t, 4, time.Second)
					}
					time.Sleep(300 * time.Millisecond)
					js := s.JetStream(t)
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					fault(t, ctx, js)
					if err := w.wait(time.Second); !errors.Is(err, ErrConsumerDeleted) {
						t.Errorf("Run returned %v", err)
					}
					if name == "consumer" {
						if _, err := js.Consumer(ctx, rigStream, rigConsumer); !errors.Is(err, jetstream.ErrConsumerNotFound) {
							t.Errorf("the consumer is there again: %v", err)
						}
					}
				})
			})
		}
	}
}

// The consumer being deleted while the connection is down.
func TestDeletedWhileDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		nc := s.Conn(t, nats.ReconnectWait(2*time.Second))
		w := r.startOn(nc, testutil.Succeed())
		time.Sleep(50 * time.Millisecond)
		s.Restart()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		js := s.JetStream(t)
		must(t, js.DeleteConsumer(ctx, rigStream, rigConsumer))
		_, err := js.CreateConsumer(ctx, rigStream, wanted(Config{Consumer: rigConsumer, AckWait: 2 * time.Second}))
		must(t, err)
		if err := w.wait(4 * time.Second); !errors.Is(err, ErrConsumerDeleted) {
			t.Errorf("Run returned %v", err)
		}
	})
}

// A loop that dies is seen at once, and so is what can't go on; busy and idle stay good.
func TestDeadLoopIsSeen(t *testing.T) {
	for _, point := range []string{"pull", "leases", "settlements", "watch", "reader", "read", "answer"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, testutil.Bubble(t), 10)
			w := r.make(r.s.Conn(t), testutil.Sleep(10*time.Millisecond))
			w.hook = func(at string) {
				if at == point {
					panic("seeded")
				}
			}
			w.run()
			err := w.wait(3 * time.Second)
			var p *ackfloor.PanicError
			if !errors.As(err, &p) || p.Value != "seeded" {
				t.Errorf("%s: Run returned %v", point, err)
			}
			if s := w.Status(); s.Ready || s.Alive {
				t.Errorf("%s: ready %v, alive %v", point, s.Ready, s.Alive)
			}
		})
	}
}

func TestBusyOrIdleIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		w := r.start(testutil.Sleep(2 * time.Minute))
		time.Sleep(time.Minute) // nothing to do
		if s := w.Status(); !s.Ready || !s.Alive {
			t.Errorf("idle for a minute: %+v", s)
		}
		s.Events(t, 8)
		time.Sleep(time.Minute) // all slots busy
		if s := w.Status(); !s.Ready || !s.Alive || s.Running != 4 {
			t.Errorf("busy for a minute: %+v", s)
		}
	})
}

// One handler that panics, in any way, costs its own message only.
func TestPanicsStayWithTheirMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 100)
		nc := s.Conn(t)
		var nilMap map[string]int
		faults := []ackfloor.Handler{
			testutil.Panic(errors.New("boom")), testutil.Panic(nil), testutil.Goexit(),
			ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { nilMap["x"]++; return nil }),
		}
		bad := ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
			if m.Sequence == 7 {
				return faults[m.Attempt%len(faults)].Handle(ctx, m)
			}
			return nil
		})
		var runners []*Runner
		for i, h := range []ackfloor.Handler{testutil.Succeed(), bad, testutil.Succeed()} {
			cfg := r.cfg
			cfg.Consumer = []string{"A", "B", "C"}[i]
			runner, err := New(nc, cfg, h)
			must(t, err)
			runners = append(runners, runner)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- RunAll(ctx, runners...) }()
		for _, name := range []string{"A", "B", "C"} {
			s.WaitInfo(t, rigStream, name, 10*time.Second, "floor 100", func(i *jetstream.ConsumerInfo) bool {
				return i.AckFloor.Stream == 100 && i.NumAckPending == 0
			})
		}
		cancel()
		must(t, <-done)
		if c := runners[1].Status().Counts; c.Terminated != 1 || c.Panics != 5 || c.Acked != 99 {
			t.Errorf("counts of the one that panics: %+v", c)
		}
		if r.logs.FilterMessageSnippet("given up").Len() != 1 {
			t.Error("there is not one line for the message that was given up")
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// With every slot busy for long, so that no pull is open that would be told.
func TestDeletedWhileAllSlotsAreBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 20)
		w := r.start(testutil.Block(nil))
		r.calls.WaitStarted(t, 4, time.Second)
		time.Sleep(3 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must(t, s.JetStream(t).DeleteConsumer(ctx, rigStream, rigConsumer))
		if err := w.wait(time.Second); !errors.Is(err, ErrConsumerDeleted) {
			t.Errorf("Run returned %v", err)
		}
	})
}
