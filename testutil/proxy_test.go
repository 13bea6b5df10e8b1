package testutil

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
)

func TestProxy(t *testing.T) {
	others := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, others) })
	s := Server(t)
	p := s.Proxy(t)
	lost := make(chan struct{}, 100)
	nc, err := nats.Connect(p.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { lost <- struct{}{} }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	through := func(when string) {
		t.Helper()
		if !poll(5*time.Second, func() bool { return nc.FlushTimeout(time.Second) == nil }) {
			t.Fatalf("nothing comes through %s", when)
		}
	}
	through("at the beginning")

	p.Hold()
	p.Hold()
	if nc.FlushTimeout(100*time.Millisecond) == nil {
		t.Error("bytes flow while held")
	}
	if !nc.IsConnected() || len(lost) != 0 {
		t.Error("Hold broke the connection")
	}
	p.Release()
	p.Release()
	through("after Release")
	if len(lost) != 0 {
		t.Error("Release broke the connection")
	}

	p.Cut()
	select {
	case <-lost:
	case <-time.After(5 * time.Second):
		t.Fatal("Cut did not break the connection")
	}
	through("after Cut")

	p.Down()
	<-lost
	if other, err := nats.Connect(p.URL()); err == nil {
		other.Close()
		t.Error("a proxy that is down takes connections")
	}
	<-time.After(100 * time.Millisecond)
	if nc.IsConnected() {
		t.Errorf("the client went past the proxy, to %s", nc.ConnectedUrl())
	}
	p.Up()
	p.Up()
	through("after Up")
	if len(nc.DiscoveredServers()) != 0 {
		t.Errorf("the server told of %v", nc.DiscoveredServers())
	}

	s.Restart()
	through("after the server's restart")
}

func TestProxyHoldsBothWays(t *testing.T) {
	s := Server(t)
	p := s.Proxy(t)
	nc, err := nats.Connect(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	direct := s.Conn(t)
	p.Hold()
	if err := direct.Publish("x", []byte("held")); err != nil {
		t.Fatal(err)
	}
	if msg, err := sub.NextMsg(100 * time.Millisecond); err == nil {
		t.Errorf("%q came through", msg.Data)
	}
	p.Release()
	if msg, err := sub.NextMsg(5 * time.Second); err != nil || string(msg.Data) != "held" {
		t.Errorf("after Release: %v, %v", msg, err)
	}
}

// A test may end while the proxy holds.
func TestProxyEndsWhileHeld(t *testing.T) {
	others := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, others) })
	s := Server(t)
	p := s.Proxy(t)
	nc, err := nats.Connect(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	p.Hold()
	_ = nc.Publish("x", []byte("y"))
	nc.Close()
}

func TestProxyInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Bubble(t)
		if said := failure(t, func(t testing.TB) { s.Proxy(t) }); !strings.Contains(said, "no TCP in a bubble") {
			t.Errorf("it said %q", said)
		}
	})
}
