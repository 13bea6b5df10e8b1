package testutil

import (
	"fmt"
	"net"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Bubble starts a nats-server with JetStream inside a testing/synctest bubble: call it from the function that was given to
// synctest.Test, with that function's t. Time is virtual for the server too, so that an ack wait of 30 s passes at once
// when everything sleeps.
//
//	synctest.Test(t, func(t *testing.T) {
//		s := testutil.Bubble(t)
//		s.Events(t, 1)
//		…
//		time.Sleep(30 * time.Second) // takes no time
//	})
//
// The server has no listener. Conn works; what connects by itself needs the option that InProcess gives. Stop, Start and
// Restart work, and clients reconnect. Everything must have ended when the test function returns, or by a t.Cleanup of its
// t: what Bubble and Conn opened ends by itself.
//
// What a bubble can't do: t.Run, t.Parallel, TCP (so no Proxy, and no Cluster) and real processes. Time stands still while
// any goroutine computes, waits for a mutex or for a file, and a goroutine that never blocks stops it for good.
//
// nats.go keeps the timers of Flush, Request, NextMsg and Drain (those without a context) for its next use, in any
// connection of the process, and the Go runtime ends the process when a timer of a bubble is used outside it. Bubble
// empties that store at its beginning and end. So a test with a bubble must not run at the same time as tests that use
// NATS outside it: no t.Parallel on either side, or FlushWithContext, RequestWithContext and NextMsgWithContext in both.
func Bubble(t testing.TB, opts ...func(*server.Options)) *S {
	t.Helper()
	if !inBubble() {
		t.Fatal("testutil.Bubble: call it inside synctest.Test, with the t of the function given to that; outside take testutil.Server")
	}
	forgetTimers()
	s := &S{name: "testutil.Bubble", opts: serverOptions(t), bubble: true}
	s.opts.DontListen = true
	s.dial = func(opts ...nats.Option) (*nats.Conn, error) {
		return nats.Connect(s.URL(), append(opts, s.InProcess())...)
	}
	t.Cleanup(func() {
		synctest.Wait() // until the goroutines of the connections have ended
		forgetTimers()
	})
	s.begin(t, opts)
	return s
}

// InProcess is the option with which nats.Connect reaches the server without TCP, whatever the URL; it goes on working
// after a Restart. It is what a bubble needs and works outside one as well.
func (s *S) InProcess() nats.Option { return nats.InProcessServer(inProcess{s}) }

// inProcess leads to the server that runs now; a *server.Server itself leads to one that Restart has ended.
type inProcess struct{ s *S }

// InProcessConn implements nats.InProcessConnProvider.
func (p inProcess) InProcessConn() (net.Conn, error) {
	srv := p.s.Server()
	if srv == nil {
		return nil, fmt.Errorf("%s: the server is stopped", p.s.name)
	}
	return srv.InProcessConn()
}

func inBubble() (in bool) {
	defer func() { in = recover() == nil }()
	synctest.Wait() // panics outside a bubble
	return
}

// forgetTimers empties the sync.Pool in which nats.go keeps timers; a pool survives one collection.
func forgetTimers() {
	runtime.GC()
	runtime.GC()
}
