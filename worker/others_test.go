package worker

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// forgetful is a server in a bubble that comes back with what it had written of the consumer at an earlier moment, as one does that was killed with -9.
type forgetful struct {
	*testutil.S
	t    *testing.T
	then []byte
}

func (f *forgetful) file() string {
	return filepath.Join(f.StoreDir(), "jetstream", server.DEFAULT_GLOBAL_ACCOUNT, "streams", rigStream, "obs", rigConsumer, "o.dat")
}

// remember keeps what the server has written by now.
func (f *forgetful) remember() {
	f.t.Helper()
	time.Sleep(time.Second) // it writes behind what happens
	var err error
	f.then, err = os.ReadFile(f.file())
	must(f.t, err)
}

// forget restarts the server with what it had written then.
func (f *forgetful) forget() {
	f.t.Helper()
	f.Stop()
	must(f.t, os.WriteFile(f.file(), f.then, 0o600))
	time.Sleep(50 * time.Millisecond)
	f.Start()
}

// onForgetful runs a test in a bubble, with a stream of n messages.
func onForgetful(t *testing.T, n int, test func(t *testing.T, r *rig, s *forgetful)) {
	synctest.Test(t, func(t *testing.T) {
		s := &forgetful{S: testutil.Bubble(t), t: t}
		r := newRig(t, s, n)
		r.cfg.AckWait, r.cfg.PullExpiry, r.cfg.Prefetch = 10*time.Second, 100*time.Millisecond, 1
		test(t, r, s)
	})
}

// like starts a worker that connects as Connect does, as in another process.
func (r *rig) like(s *forgetful, h ackfloor.Handler, change ...func(*Config)) *running {
	r.t.Helper()
	claims.Clear()
	w := r.startOn(connectLikeWorker(r.t, s.S), h, change...)
	w.working()
	return w
}

// behindGate handles the first hundred messages at once, and the others once release is closed.
func behindGate(release <-chan struct{}, err error) ackfloor.Handler {
	return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		if m.Sequence > 100 {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		time.Sleep(10 * time.Millisecond)
		return err
	})
}

// What one worker has settled the others acknowledge, though the server has forgotten that it ever delivered it: those that were there, and one that came later.
func TestForgottenIsHandledByNobody(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		err    error
	}{
		"one by one":   {change: func(*Config) {}},
		"keys":         {change: func(c *Config) { c.Key = keyOfSequence }},
		"plain acks":   {change: func(c *Config) { c.Ack = AckSend }},
		"dead letters": {change: func(c *Config) { withLetters(c); c.MaxAttempts = 1 }, err: errWork},
	} {
		t.Run(name, func(t *testing.T) {
			onForgetful(t, 200, func(t *testing.T, r *rig, s *forgetful) {
				release := make(chan struct{})
				var ws []*running
				for range 3 {
					ws = append(ws, r.like(s, behindGate(release, tc.err), tc.change))
				}
				s.remember()
				close(release)
				r.floor(200, time.Minute)
				s.forget()
				for _, w := range ws[:2] { // they tell as they go
					w.ok(w.end())
				}
				last := r.like(s, behindGate(release, tc.err), tc.change)
				r.floor(200, 5*time.Second)
				r.onceEach(200)
				skipped := last.Status().Counts.Skipped
				for _, w := range ws {
					skipped += w.Status().Counts.Skipped
				}
				if skipped < 50 {
					t.Errorf("%d messages came again: that shows nothing", skipped)
				}
				ws[2].ok(ws[2].end())
				last.ok(last.end())
			})
		})
	}
}

// A worker that starts just then asks before it pulls.
func TestWorkerThatStartsAsksFirst(t *testing.T) {
	onForgetful(t, 0, func(t *testing.T, r *rig, s *forgetful) {
		w := r.like(s, testutil.Succeed())
		s.remember()
		publish(t, s.S, slices.Repeat([]string{"events.1"}, 50)...)
		r.floor(50, time.Minute)
		s.forget()
		for !w.nc.IsConnected() {
			time.Sleep(time.Millisecond)
		}
		next := r.like(s, testutil.Succeed())
		r.floor(50, time.Minute)
		r.onceEach(50)
		if next.Status().Counts.Skipped == 0 {
			t.Error("it got none of them: that shows nothing")
		}
		w.ok(w.end())
		next.ok(next.end())
	})
}

// What waits here for a slot, and another has settled meanwhile, is not handled. A word that is not another's of the same consumer changes nothing.
func TestSettledByAnotherWhileItWaits(t *testing.T) {
	one := func(*ackfloor.Message) string { return "one" }
	for name, tc := range map[string]struct {
		key     func(*ackfloor.Message) string
		own     bool
		created time.Duration // beside the consumer's
		time    int64         // beside the message's
		calls   int
	}{
		"told":                {calls: 3},
		"told, in order":      {calls: 3, key: one},
		"told by itself":      {calls: 4, own: true},
		"of another consumer": {calls: 4, created: 1},
		"of another stream":   {calls: 4, time: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 4)
				release := make(chan struct{})
				w := r.start(testutil.Block(release), func(c *Config) { c.Concurrency, c.Prefetch, c.Key = 1, 3, tc.key })
				w.working()
				time.Sleep(time.Second)
				told := word{From: "another", Created: w.bound.info.Created.Add(tc.created)}
				if tc.own {
					told.From = w.others.me
				}
				w.buf.mu.Lock()
				told.Settled = []fact{{2, w.buf.held.get(2).published() + tc.time, 0}}
				w.buf.mu.Unlock()
				for _, data := range append(told.parts(), nil, []byte(`{"from":"x","created":1}`), []byte(`{"from":"x","settled":[1,2]}`)) {
					must(t, s.Conn(t).Publish(w.others.subject+toAll, data))
				}
				time.Sleep(time.Second)
				close(release)
				r.floor(4, time.Minute)
				if n := len(r.calls.Calls()); n != tc.calls || r.calls.Count(2) != tc.calls-3 {
					t.Errorf("%v", r.calls.Sequences())
				}
				w.ok(w.end())
			})
		})
	}
}

// Nobody can ask a worker that has ended: what it settled last it told before.
func TestStoppedWorkerHasTold(t *testing.T) {
	onForgetful(t, 200, func(t *testing.T, r *rig, s *forgetful) {
		release := make(chan struct{})
		first := r.like(s, behindGate(release, nil))
		other := r.like(s, behindGate(release, nil))
		s.remember()
		close(release)
		r.floor(200, time.Minute)
		first.ok(first.end())
		s.forget()
		r.floor(200, 5*time.Second)
		r.onceEach(200)
		other.ok(other.end())
	})
}

// Deliveries that the server knows of, and acks that it has forgotten: they are sent again, and the messages do not come when ack_wait is over.
func TestForgottenAcksAreSentAgain(t *testing.T) {
	onForgetful(t, 4, func(t *testing.T, r *rig, s *forgetful) {
		release := make(chan struct{})
		w := r.like(s, testutil.Block(release))
		r.calls.WaitStarted(t, 4, time.Minute)
		s.remember()
		close(release)
		r.floor(4, time.Second)
		s.forget()
		r.floor(4, 2*time.Second)
		if n := w.Status().Counts.Redelivered; n > 0 {
			t.Errorf("%d came again", n)
		}
		r.onceEach(4)
		w.ok(w.end())
	})
}

// busy is a worker that handles what it gets for five seconds, and has no room for more, and another that has nothing to do, on a server that has forgotten what it
// delivered to the first.
func busy(t *testing.T, change func(*Config), test func(r *rig, s *forgetful, busy, idle *running)) {
	onForgetful(t, 0, func(t *testing.T, r *rig, s *forgetful) {
		w := r.like(s, testutil.Sleep(5*time.Second), change, func(c *Config) { c.AckWait, c.Concurrency = 3*time.Second, 3 })
		s.remember()
		publish(t, s.S, "events.1", "events.2", "events.3", "events.4")
		r.calls.WaitStarted(t, 3, time.Minute)
		idle := r.like(s, testutil.Succeed(), change, func(c *Config) { c.AckWait = 3 * time.Second })
		s.forget()
		test(r, s, w, idle)
		idle.ok(idle.end())
	})
}

// What another worker holds is left to it.
func TestWhatAnotherHoldsIsLeftToIt(t *testing.T) {
	busy(t, func(*Config) {}, func(r *rig, s *forgetful, busy, idle *running) {
		r.floor(4, 15*time.Second)
		r.onceEach(4)
		if n := idle.Status().Counts.LeftToAnother; n != 4 {
			t.Errorf("%d were left to it", n)
		}
		busy.ok(busy.end())
	})
}

// It comes behind ack_wait where the other has died since, and where keys are kept in order it is waited for by nobody, since what comes later would overtake it.
func TestWhatWasLeftToTheDeadComes(t *testing.T) {
	busy(t, func(*Config) {}, func(r *rig, s *forgetful, busy, idle *running) {
		time.Sleep(time.Second)
		if n := len(r.calls.Calls()); n != 3 {
			t.Fatalf("%d calls", n)
		}
		busy.nc.Close()
		r.floor(4, 5*time.Second)
	})
	busy(t, func(c *Config) { c.Key = keyOfSequence }, func(r *rig, s *forgetful, busy, idle *running) {
		if time.Sleep(500 * time.Millisecond); idle.Status().Counts.LeftToAnother > 0 || len(r.calls.Calls()) != 7 {
			t.Errorf("%d calls, %+v", len(r.calls.Calls()), idle.Status().Counts)
		}
		busy.ok(busy.end())
	})
}

// A worker that may not tell says so once, and works; so does one whose stream would store what is told.
func TestNobodyIsToldWhereThatCantBe(t *testing.T) {
	subject := othersSubject + rigStream + "." + rigConsumer + ".*"
	s := testutil.Server(t, func(o *server.Options) {
		user := func(name string, publish, subscribe *server.SubjectPermission) *server.User {
			return &server.User{Username: name, Password: "p", Permissions: &server.Permissions{Publish: publish, Subscribe: subscribe}}
		}
		deny := &server.SubjectPermission{Deny: []string{subject}}
		o.Users = []*server.User{user("admin", nil, nil), user("mute", deny, nil), user("deaf", nil, deny)}
	})
	s.Login(nats.UserInfo("admin", "p"))
	r := newRig(t, s, 3)
	subscriptions := map[string]int{}
	for _, name := range []string{"admin", "mute", "deaf"} {
		said := r.logged("can't tell one another")
		w := r.startOn(s.Conn(t, nats.UserInfo(name, "p"), nats.ErrorHandler(nil)), testutil.Succeed())
		w.working()
		r.floor(3, 10*time.Second)
		subscriptions[name] = w.nc.NumSubscriptions()
		if said = r.logged("can't tell one another") - said; said != 0 != (name != "admin") {
			t.Errorf("%s: said %d times", name, said)
		}
		w.ok(w.end())
	}
	if subscriptions["mute"] != subscriptions["admin"]-2 || subscriptions["deaf"] != subscriptions["admin"]-2 {
		t.Errorf("%v: what was denied is subscribed to still", subscriptions)
	}
}

func TestStreamThatWouldStoreWhatIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, -1)
		js, err := jetstream.New(s.Conn(t))
		must(t, err)
		stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: rigStream, Subjects: []string{"ackfloor.*.*.*.*"}})
		must(t, err)
		w := r.start(testutil.Succeed())
		w.working()
		s.Restart()
		w.ok(w.end())
		if info, err := stream.Info(t.Context()); err != nil || info.State.Msgs > 0 || w.others.subject != "" {
			t.Errorf("%+v, %v", info.State, err)
		}
	})
}

// Where it is not known whether it may listen, since the server denies others on the connection something just then, it listens.
func TestListensWhileOthersAreDenied(t *testing.T) {
	s := testutil.Server(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin", Password: "p"}, {Username: "u", Password: "p", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"denied"}}}}}
	})
	s.Login(nats.UserInfo("admin", "p"))
	r := newRig(t, s, 3)
	w := r.make(s.Conn(t, nats.UserInfo("u", "p"), nats.ErrorHandler(nil)), testutil.Succeed())
	w.hook = func(point string) {
		if point == "ask" { // between what is asked and what is said to it
			must(t, w.nc.Publish("denied", nil))
		}
	}
	w.run()
	w.working()
	r.floor(3, 10*time.Second)
	if w.others.subject == "" {
		t.Error("it does without the others")
	}
	w.ok(w.end())
}

// A consumer that somebody resets, to have messages handled anew, looks like one that has forgotten: what workers tell as they start and stop does not stand in the way.
func TestResetBehindAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 10)
		a := r.start(testutil.Succeed())
		r.floor(10, time.Minute)
		b := r.inAnotherProcess(testutil.Succeed())
		a.ok(a.end())
		_, err := s.Conn(t).RequestWithContext(t.Context(), "$JS.API.CONSUMER.RESET.EVENTS.D", []byte(`{"seq":1}`))
		must(t, err)
		time.Sleep(5 * time.Second)
		if n := len(r.calls.Calls()); n != 20 {
			t.Errorf("%d calls", n)
		}
		b.ok(b.end())
	})
}
