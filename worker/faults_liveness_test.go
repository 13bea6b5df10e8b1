package worker

import (
	"context"
	"errors"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Over TCP, with the connection of a worker: the server is away for ten seconds under an idle worker and a busy one. All is handled soon behind the return; how soon is
// measured in virtual time, by TestGoesOnAfterServerRestart.
func TestGoesOnAfterTenSecondsOverTCP(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	r := newRig(t, s, 0)
	connect := func() *nats.Conn {
		nc, err := Connect(t.Context(), Connection{URL: s.URL()})
		must(t, err)
		return nc
	}
	idle := r.startOn(connect(), testutil.Succeed(), func(c *Config) { c.Consumer, c.Filter = "idle", []string{"events.idle"} })
	idle.working()
	busy := r.startOn(connect(), testutil.Sleep(20*time.Millisecond), func(c *Config) { c.Filter = []string{"events.busy"} })
	busy.working()
	post := func(n int, subject string) {
		js := s.JetStream(t)
		for range n {
			_, err := js.Publish(t.Context(), subject, nil)
			must(t, err)
		}
	}
	post(50, "events.busy")
	r.calls.Wait(t, 5, 30*time.Second)
	s.Stop()
	time.Sleep(10 * time.Second)
	s.Start()
	back := time.Now()
	post(25, "events.busy")
	post(25, "events.idle")
	r.floor(75, 30*time.Second)
	s.WaitInfo(t, rigStream, "idle", 30*time.Second, "floor 100", floorAt(100))
	if d := time.Since(back); d > 15*time.Second { // 2 s on a machine that has time
		t.Errorf("all handled %v after the return", d)
	}
	r.onceEach(100)
	idle.ok(idle.end())
	busy.ok(busy.end())
}

// What a server may do to a worker without deleting anything, idle or busy: when it is over, the worker goes on within three seconds, and each message is handled once.
func TestGoesOnWhenItIsOver(t *testing.T) {
	long := func(_ *testing.T, _ *testutil.S, _ *server.Options, _ *running) { time.Sleep(5 * time.Second) }
	for name, tt := range map[string]struct {
		begin, end func(*testing.T, *testutil.S, *server.Options, *running)
	}{
		"the client is kicked": {begin: func(t *testing.T, s *testutil.S, _ *server.Options, w *running) {
			id, err := w.nc.GetClientID()
			must(t, err)
			must(t, s.Server().DisconnectClientByID(id))
		}},
		"a consumer that is paused": {begin: func(t *testing.T, s *testutil.S, _ *server.Options, w *running) {
			_, err := s.JetStream(t).PauseConsumer(t.Context(), rigStream, rigConsumer, time.Now().Add(time.Hour))
			must(t, err)
			long(t, s, nil, w)
			if st := w.Status(); !st.Alive || !st.Ready {
				t.Errorf("paused: alive %v, ready %v: %s", st.Alive, st.Ready, st.Reason)
			}
		}, end: func(t *testing.T, s *testutil.S, _ *server.Options, _ *running) {
			_, err := s.JetStream(t).ResumeConsumer(t.Context(), rigStream, rigConsumer)
			must(t, err)
		}},
		"a pause that ends by itself": {begin: func(t *testing.T, s *testutil.S, o *server.Options, w *running) {
			_, err := s.JetStream(t).PauseConsumer(t.Context(), rigStream, rigConsumer, time.Now().Add(5*time.Second))
			must(t, err)
			long(t, s, o, w)
		}},
		"a server without JetStream for a while": {begin: func(t *testing.T, s *testutil.S, o *server.Options, w *running) {
			s.Stop()
			o.JetStream = false
			s.Start()
			long(t, s, o, w)
			if st := w.Status(); st.State != StateWorking || !st.Alive {
				t.Errorf("it is %v (%s)", st.State, st.Reason)
			}
		}, end: func(_ *testing.T, s *testutil.S, o *server.Options, _ *running) {
			s.Stop()
			o.JetStream = true
			s.Start()
		}},
		"five restarts in two seconds": {begin: func(_ *testing.T, s *testutil.S, _ *server.Options, _ *running) {
			for range 5 {
				s.Restart()
				time.Sleep(400 * time.Millisecond)
			}
		}},
		"a stream whose messages were purged": {begin: func(t *testing.T, s *testutil.S, _ *server.Options, _ *running) {
			stream, err := s.JetStream(t).Stream(t.Context(), rigStream)
			must(t, err)
			must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("events.none")))
		}},
		"a stream that was updated": {begin: func(t *testing.T, s *testutil.S, _ *server.Options, _ *running) {
			s.Stream(t, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}, MaxAge: time.Hour, Description: "another"})
		}},
		"pulls of somebody else that wait": {begin: func(t *testing.T, s *testutil.S, _ *server.Options, _ *running) {
			nc := s.Conn(t)
			for range 600 { // more than max_waiting
				must(t, nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.EVENTS.D", nc.NewInbox(), []byte(`{"batch":1,"expires":900000000}`)))
			}
			time.Sleep(time.Second)
		}},
		"max_ack_pending that was lowered to one": {begin: func(t *testing.T, s *testutil.S, _ *server.Options, w *running) {
			cfg := w.bound.info.Config
			cfg.MaxAckPending = 1
			s.Consumer(t, rigStream, cfg)
			time.Sleep(time.Second)
		}, end: func(t *testing.T, s *testutil.S, _ *server.Options, w *running) {
			s.Consumer(t, rigStream, w.bound.info.Config)
			time.Sleep(lookAnyway + time.Second) // until it looks
		}},
		"a filter that was made wider": {begin: func(t *testing.T, s *testutil.S, _ *server.Options, w *running) {
			cfg := w.bound.info.Config
			cfg.FilterSubject, cfg.FilterSubjects = "", []string{"events.>", "other.>"}
			s.Stream(t, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>", "other.>"}})
			s.Consumer(t, rigStream, cfg)
			s.Stream(t, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}})
		}},
	} {
		for _, busy := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var o *server.Options
					s := testutil.Bubble(t, func(opts *server.Options) { o = opts })
					n := 0
					if busy {
						n = 40
					}
					r := newRig(t, s, n)
					time.Sleep(3 * time.Second)
					w := r.startOn(connectLikeWorker(t, s), testutil.Sleep(100*time.Millisecond))
					w.working()
					time.Sleep(350 * time.Millisecond)
					tt.begin(t, s, o, w)
					if tt.end != nil {
						tt.end(t, s, o, w)
					}
					back := time.Now()
					s.Events(t, 50)
					r.floor(uint64(n+50), 30*time.Second)
					if d := time.Since(back); d > 3*time.Second+time.Duration(n+50)/4*100*time.Millisecond {
						t.Errorf("all handled %v behind the end", d)
					}
					r.onceEach(n + 50)
					if st := w.Status(); !st.Ready || !st.Alive {
						t.Errorf("not well: %s", st.Reason)
					}
					w.ok(w.end())
				})
			})
		}
	}
}

// A connection of the user's own that gives up: Run ends with what nats.go says, and never with nil.
func TestConnectionThatGivesUpEndsRun(t *testing.T) {
	for name, option := range map[string]nats.Option{"few tries": nats.MaxReconnects(3), "no reconnect": nats.NoReconnect()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 10)
				w := r.startOn(s.Conn(t, option), testutil.Sleep(time.Second))
				r.calls.WaitStarted(t, 4, time.Second)
				s.Stop()
				endsClosed(t, w)
			})
		})
	}
}

func endsClosed(t *testing.T, w *running) {
	t.Helper()
	if err := w.wait(30 * time.Second); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("Run returned %v", err)
	}
	if st := w.Status(); st.Ready || st.State != StateEnded {
		t.Errorf("it is %v, ready %v", st.State, st.Ready)
	}
}

// A password that the server refuses for a while: the connection of Connect outlives it, and with it the worker. One of the user's own that nats.go gives up ends Run.
func TestPasswordThatIsRefusedForAWhile(t *testing.T) {
	t.Parallel()
	var o *server.Options
	s := testutil.Server(t, func(opts *server.Options) { o = opts })
	o.Username, o.Password = "ada", "secret"
	s.Restart()
	s.Login(nats.UserInfo("ada", "secret"), nats.IgnoreAuthErrorAbort())
	r := newRig(t, s, 40)
	nc, err := Connect(t.Context(), Connection{URL: s.URL(), User: "ada", Password: "secret"})
	must(t, err)
	w := r.startOn(nc, testutil.Sleep(50*time.Millisecond))
	own := r.startOn(s.Conn(t, nats.UserInfo("ada", "secret")), testutil.Succeed(), func(c *Config) { c.Consumer = "own" })
	own.working()
	r.calls.Wait(t, 8, 30*time.Second)
	s.Stop()
	o.Password = "another"
	s.Start()
	endsClosed(t, own)
	time.Sleep(2 * time.Second)
	if st := w.Status(); st.Ready || !st.Alive || st.State != StateWorking {
		t.Errorf("refused: alive %v, ready %v, %v", st.Alive, st.Ready, st.State)
	}
	s.Stop()
	o.Password = "secret"
	s.Start()
	s.Events(t, 10)
	r.floor(50, 30*time.Second)
	w.ok(w.end())
	for seq := uint64(41); seq <= 50; seq++ {
		if n := r.calls.Count(seq); n != 1 {
			t.Errorf("message %d was handled %d times", seq, n)
		}
	}
}

// Streams that lose what they hold: the worker goes on with what comes then, or ends with a word. It is never idle for ever, and nothing is re-created.
func TestStreamsThatLoseMessages(t *testing.T) {
	for name, fault := range map[string]func(t *testing.T, ctx context.Context, s *testutil.S, stream jetstream.Stream){
		"purged": func(t *testing.T, ctx context.Context, _ *testutil.S, stream jetstream.Stream) {
			must(t, stream.Purge(ctx))
		},
		"purged in part": func(t *testing.T, ctx context.Context, _ *testutil.S, stream jetstream.Stream) {
			must(t, stream.Purge(ctx, jetstream.WithPurgeKeep(3)))
		},
		"purged far ahead": func(t *testing.T, ctx context.Context, _ *testutil.S, stream jetstream.Stream) {
			must(t, stream.Purge(ctx, jetstream.WithPurgeSequence(15)))
		},
		"deleted one by one": func(t *testing.T, ctx context.Context, _ *testutil.S, stream jetstream.Stream) {
			for seq := range uint64(20) {
				must(t, stream.DeleteMsg(ctx, seq+1))
			}
		},
		"at their limit": func(t *testing.T, _ context.Context, s *testutil.S, stream jetstream.Stream) {
			cfg := stream.CachedInfo().Config
			cfg.MaxMsgs = 2
			s.Stream(t, cfg)
		},
		"too old": func(t *testing.T, _ context.Context, s *testutil.S, stream jetstream.Stream) {
			cfg := stream.CachedInfo().Config
			cfg.MaxAge, cfg.Duplicates = time.Second, time.Second
			s.Stream(t, cfg)
			time.Sleep(5 * time.Second)
		},
		"purged, and the server restarted": func(t *testing.T, ctx context.Context, s *testutil.S, stream jetstream.Stream) {
			must(t, stream.Purge(ctx))
			s.Restart()
		},
	} {
		for _, way := range []string{"in order", "batch"} {
			t.Run(name+", "+way, func(t *testing.T) {
				mode = way
				defer func() { mode = "" }()
				synctest.Test(t, func(t *testing.T) {
					s := testutil.Bubble(t)
					r := newRig(t, s, 20)
					w := r.startOn(connectLikeWorker(t, s), testutil.Sleep(200*time.Millisecond), withLetters, func(c *Config) {
						if way == "in order" {
							c.Key = func(m *ackfloor.Message) string { return strconv.FormatUint(m.Sequence%3, 10) }
						}
					})
					r.calls.WaitStarted(t, 1, time.Second)
					time.Sleep(50 * time.Millisecond)
					stream, err := s.JetStream(t).Stream(t.Context(), rigStream)
					must(t, err)
					fault(t, t.Context(), s, stream)
					s.Events(t, 30)
					last := r.stored()
					r.floor(last, 30*time.Second)
					for seq := last - 1; seq <= last; seq++ { // these are there in any case
						if n := r.calls.Count(seq); n != 1 {
							t.Errorf("message %d was handled %d times", seq, n)
						}
					}
					if st := w.Status(); !st.Ready || !st.Alive || st.Counts.Retried > 0 {
						t.Errorf("not well: %s; %+v", st.Reason, st.Counts)
					}
					w.ok(w.end())
					if held := w.holds(); held != "" {
						t.Errorf("at the end it has %s", held)
					}
				})
			})
		}
	}
}

// stored is the stream's last sequence.
func (r *rig) stored() uint64 {
	r.t.Helper()
	stream, err := r.s.(*testutil.S).JetStream(r.t, r.admin...).Stream(r.t.Context(), rigStream)
	must(r.t, err)
	return stream.CachedInfo().State.LastSeq
}

// A stream in memory is lost with its server: the worker says that its consumer is gone, or goes on where the server has kept both.
func TestStreamInMemoryIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		s.Stream(t, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}, Storage: jetstream.MemoryStorage})
		r := newRig(t, s, -1)
		w := r.startOn(connectLikeWorker(t, s), testutil.Sleep(10*time.Millisecond))
		w.working()
		publish(t, s, "events.1", "events.2")
		r.floor(2, time.Second)
		s.Restart()
		if err := w.wait(5 * time.Second); !errors.Is(err, ErrConsumerDeleted) {
			t.Errorf("Run returned %v", err)
		}
		if r.logged(`stream "EVENTS" is in memory`) != 1 {
			t.Error("not warned of")
		}
	})
}

// With real processes: one is suspended for longer than its leases while another works. When it wakes it settles nothing that is the other's, takes up its work, and stops well.
func TestSuspendedProcess(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	s.Events(t, 100)
	a := spawn(t, "main", s.URL(), "", "WORK=100ms")
	a.waitFor("end", 8, 30*time.Second)
	a.signal(syscall.SIGSTOP)
	held := s.Info(t, rigStream, rigConsumer).NumAckPending
	b := spawn(t, "main", s.URL(), "", "WORK=50ms")
	b.waitFor("end", 30, 30*time.Second)
	time.Sleep(2500 * time.Millisecond)
	a.signal(syscall.SIGCONT)
	s.WaitInfo(t, rigStream, rigConsumer, 30*time.Second, "floor 100", floorAt(100))
	s.Events(t, 40)
	s.WaitInfo(t, rigStream, rigConsumer, 30*time.Second, "floor 140", floorAt(140))
	for _, k := range []*kid{a, b} {
		k.signal(syscall.SIGTERM)
		if code, _ := k.exit(30 * time.Second); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
	of, by := events(t, a.out, "end"), events(t, b.out, "end")
	again := 0
	for seq := uint64(1); seq <= 140; seq++ {
		if of[seq]+by[seq] == 0 {
			t.Errorf("sequence %d was not handled", seq)
		}
		again += max(0, of[seq]+by[seq]-1)
	}
	if again > held+8 {
		t.Errorf("%d handled twice, %d were held", again, held)
	}
	if of[140]+by[140] != 1 || len(of) < 9 {
		t.Errorf("the one that was suspended handled %d", len(of))
	}
}
