package worker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Handlers are quick, so that pulls are filled at once: in most moments none is open, which would be told that the leader moves. The new leader says so itself.
func TestLeaderMovesWhileMessagesFlow(t *testing.T) {
	noLeaks(t)
	const n = 6000
	c := testutil.Cluster(t, 3)
	r := newRig(t, c, n)
	r.cfg.AckWait, r.cfg.MaxAckPending = time.Second, 0
	time.Sleep(1100 * time.Millisecond) // the backlog is older than ack_wait
	var all []*running
	for range 2 {
		claims.Clear() // as in another process
		all = append(all, r.inCluster(c, testutil.Sleep(2*time.Millisecond)))
	}
	for i := range 5 {
		r.calls.WaitStarted(t, n/6*(i+1), 30*time.Second)
		c.MoveConsumerLeader(t, rigStream, rigConsumer)
	}
	r.floor(n, time.Minute)
	r.onceEach(n)
	for _, w := range all {
		w.ok(w.end())
	}
}

// Without the right to be told, it says so once, and works. With it, nothing is said.
func TestLeaderThatMayNotBeToldOf(t *testing.T) {
	noLeaks(t)
	elected := electedSubject + rigStream + "." + rigConsumer
	c := testutil.Cluster(t, 3, func(o *server.Options) {
		user := func(name string, subscribe ...string) *server.User {
			return &server.User{Username: name, Password: "p", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Allow: subscribe}}}
		}
		o.Users = []*server.User{user("admin", ">"), user("without", "_INBOX.>"), user("with", "_INBOX.>", elected)}
	})
	c.Login(nats.UserInfo("admin", "p"))
	r := newRig(t, c, 20)
	subscriptions := map[string]int{}
	for _, user := range []string{"without", "with"} {
		said := r.logs.Len()
		w := r.startOn(c.Conn(t, nats.UserInfo(user, "p"), nats.ErrorHandler(nil)), testutil.Sleep(0), func(c *Config) { c.StartupTimeout = 20 * time.Second })
		w.working()
		r.floor(20, time.Minute)
		w.pull.mu.Lock()
		told := w.pull.told
		w.pull.mu.Unlock()
		var warned []string
		for _, e := range r.logs.All()[said:] {
			if strings.HasPrefix(e.Message, "not told") {
				warned = append(warned, e.ContextMap()["allow_subscribe"].(string))
			}
		}
		if told != (user == "with") || told != (len(warned) == 0) || !told && (len(warned) != 1 || warned[0] != elected) {
			t.Errorf("%s: told %v, and warns of %q", user, told, warned)
		}
		subscriptions[user] = w.nc.NumSubscriptions()
		w.ok(w.end())
	}
	if subscriptions["without"] != subscriptions["with"]-1 {
		t.Errorf("%v: what was denied is subscribed to still, and again after a reconnect", subscriptions)
	}
	r.onceEach(20)
}

// The new leader's notice, and what nobody listened to, an ack as well as a pull: nothing is pulled before all settled with it.
func TestSignsOfAChangeOfLeader(t *testing.T) {
	noLeaks(t)
	c := testutil.Cluster(t, 3)
	r := newRig(t, c, 1)
	w := r.inCluster(c, ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { return nil }))
	r.floor(1, 20*time.Second)
	admin := c.Conn(t)
	for what, say := range map[string]func(){
		"an answer": func() { w.conf.settle("later", nakPlain, 1, true, 0, w.clock.now()) },
		"a stamp's answer": func() {
			w.onAnswer(&nats.Msg{Subject: w.stampSubject(1, w.clock.now()), Header: nats.Header{"Status": {"503"}}})
		},
		"a pull":     func() { w.act(nobody, "503", "") },
		"its notice": func() { must(t, admin.Publish(electedSubject+rigStream+"."+rigConsumer, nil)) },
	} {
		say()
		if !soon(w.settling) {
			t.Errorf("%s: nothing is settled first", what)
		}
		if what == "an answer" {
			_, err := admin.Subscribe("later", func(m *nats.Msg) { _ = m.Respond(nil) })
			must(t, err)
		}
		if !soon(func() bool { return !w.settling() }) {
			t.Fatalf("%s: it settles for ever", what)
		}
	}
	w.ok(w.end())
}

// A worker that has no open pull, and sends nothing, is told of a real change of leader all the same, and long before it would look.
func TestNewLeaderIsToldOf(t *testing.T) {
	if electedSubject != server.JSAdvisoryConsumerLeaderElectedPre+"." {
		t.Errorf("the server publishes to %s", server.JSAdvisoryConsumerLeaderElectedPre)
	}
	noLeaks(t)
	c := testutil.Cluster(t, 3)
	r := newRig(t, c, 20)
	release := make(chan struct{})
	nc, err := Connect(t.Context(), Connection{URL: c.URL()})
	must(t, err)
	w := r.make(nc, testutil.Block(release), func(c *Config) { c.Prefetch, c.StartupTimeout = 1, 20*time.Second })
	elected := make(chan time.Time, 8)
	w.hook = func(point string) {
		if point == "elected" {
			elected <- time.Now()
		}
	}
	w.run()
	r.calls.WaitStarted(t, 4, 20*time.Second)
	for range 3 {
		c.MoveConsumerLeader(t, rigStream, rigConsumer)
		select {
		case <-elected:
		case <-time.After(10 * time.Second):
			t.Fatal("it was not told of the new leader")
		}
	}
	close(release)
	r.floor(20, time.Minute)
	r.onceEach(20)
	w.ok(w.end())
}

// A settlement that nobody ever takes, since the user may not reach the consumer's acks, holds up the pulls for some seconds and not for ever.
func TestNobodyForEver(t *testing.T) {
	noLeaks(t)
	c := testutil.Cluster(t, 3)
	r := newRig(t, c, 1)
	w := r.inCluster(c, testutil.Sleep(0))
	r.floor(1, 20*time.Second)
	w.conf.settle("later", ackBody, 1, false, 0, w.clock.now())
	if !soon(w.settling) {
		t.Fatal("it does not settle first")
	}
	r.s.Events(t, 3)
	r.floor(4, nakPatience+5*time.Second)
	s, err := c.Conn(t).Subscribe("later", func(m *nats.Msg) { _ = m.Respond(nil) })
	must(t, err)
	defer func() { _ = s.Unsubscribe() }()
	w.ok(w.end())
}

// A delivery that arrives while all settle may have been sent by the old leader: its first stamp takes it off what the new one is about to hand out.
func TestWhatArrivesAfterTheNoticeIsReserved(t *testing.T) {
	noLeaks(t)
	c := testutil.Cluster(t, 3)
	r := newRig(t, c, 0)
	w := r.inCluster(c, testutil.Sleep(time.Second))
	pulls := func() bool {
		w.pull.mu.Lock()
		defer w.pull.mu.Unlock()
		return w.pull.open > 0
	}
	if !soon(pulls) {
		t.Fatal("it does not pull")
	}
	admin := c.Conn(t)
	wire, err := admin.SubscribeSync("$JS.ACK.>")
	must(t, err)
	must(t, admin.Publish(electedSubject+rigStream+"."+rigConsumer, nil))
	if !soon(w.settling) {
		t.Fatal("it does not settle")
	}
	must(t, admin.Publish("events.order_placed", []byte(`{}`)))
	m, err := wire.NextMsg(5 * time.Second)
	must(t, err)
	if string(m.Data) != `-NAK {"delay":2000000000}` {
		t.Errorf("its first stamp is %s", m.Data)
	}
	r.floor(1, 10*time.Second)
	w.ok(w.end())
}

func (w *running) settling() bool {
	w.pull.mu.Lock()
	defer w.pull.mu.Unlock()
	return w.pull.settled > 0
}

// soon waits until something is so, and tells whether it is.
func soon(so func() bool) bool {
	for end := time.Now().Add(5 * time.Second); !so(); {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(2 * time.Millisecond)
	}
	return true
}

// Also on one server, where it says nothing of a leader, a pull that nobody took is not sent again at once.
func TestPullThatNobodyTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		w := r.start(testutil.Sleep(0))
		w.working()
		w.act(nobody, "503", "")
		w.pull.mu.Lock()
		wait, gap := w.pull.notBefore-w.clock.now(), w.pull.gap
		w.pull.mu.Unlock()
		if wait < askAgainWait || wait > 5*askAgainWait || gap {
			t.Errorf("it waits %v, gap %v", wait, gap)
		}
		w.ok(w.end())
	})
}
