package testutil

import (
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestProcessCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds nats-server")
	}
	c := ProcessCluster(t, 3)
	c.Events(t, 5)
	durable := c.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "d"})
	if body := nextBody(t, durable); body != "0" {
		t.Fatalf("the first body is %q", body)
	}
	leader := c.ConsumerLeader(t, "EVENTS", "d")
	if moved := c.MoveConsumerLeader(t, "EVENTS", "d"); moved == leader {
		t.Error("the leader has not moved")
	}
	// A server that ends hands over what it leads; one that is killed leaves the others to an election, of four to nine seconds.
	away := c.StreamLeader(t, "EVENTS")
	c.Server(away).Stop()
	if n := c.Running(); n != 2 {
		t.Errorf("%d servers run, want 2", n)
	}
	c.WaitInfo(t, "EVENTS", "d", 30*time.Second, "another leader", func(i *jetstream.ConsumerInfo) bool { return led(i) && i.Cluster.Leader != serverName(away) })
	if body := nextBody(t, durable); body != "1" {
		t.Errorf("the next body is %q", body)
	}
	c.Server(away).Start()
	if info := c.Info(t, "EVENTS", "d"); info.AckFloor.Stream != 2 {
		t.Errorf("after all that: %s", describe(info))
	}
	c.Server(0).Signal(syscall.SIGTERM)
	if !c.Server(0).Ended(30 * time.Second) {
		t.Error("it did not end")
	}
}

func TestServersForPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds nats-server")
	}
	p, err := NewServerProcess(ServerBinary(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	p.Events(t, 1)
	if _, err := NewServerProcess("no-such-binary", t.TempDir()); err == nil {
		t.Error("a binary that is missing is no error")
	}
	c, err := NewProcessCluster(ServerBinary(t), t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.Events(t, 1)
	if _, err := NewProcessCluster("no-such-binary", t.TempDir(), 3); err == nil {
		t.Error("a binary that is missing is no error")
	}
}
