package deploy

import (
	"strconv"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsOf runs the server of compose.yaml, by its configuration, on other ports and another folder.
func natsOf(t *testing.T) (*server.Server, jetstream.JetStream) {
	t.Helper()
	o, err := server.ProcessConfigFile("nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	if o.StoreDir != "/data" || o.Port != 4222 || o.HTTPPort != 8222 {
		t.Fatalf("store %s, ports %d and %d: compose.yaml says otherwise", o.StoreDir, o.Port, o.HTTPPort)
	}
	o.Host, o.Port, o.HTTPPort, o.StoreDir, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, server.RANDOM_PORT, t.TempDir(), true, true
	return serve(t, o, "a token", nats.Token(token))
}

// serve runs a server until the test ends, and connects with a login, without which it must take nobody.
func serve(t *testing.T, o *server.Options, what string, login nats.Option) (*server.Server, jetstream.JetStream) {
	t.Helper()
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server takes no connections")
	}
	if nc, err := nats.Connect(s.ClientURL()); err == nil {
		nc.Close()
		t.Fatalf("the server takes a connection without %s", what)
	}
	nc, err := nats.Connect(s.ClientURL(), login)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return s, js
}

// freePort is a port of this machine that nobody listens on, with the colon before it.
func freePort(t *testing.T) string {
	t.Helper()
	port, err := testutil.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return ":" + strconv.Itoa(port)
}
