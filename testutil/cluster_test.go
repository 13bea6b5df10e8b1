package testutil

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestCluster(t *testing.T) {
	others := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, others) })
	c := Cluster(t, 3)
	stream := c.Events(t, 50)
	if replicas := stream.CachedInfo().Config.Replicas; replicas != 3 {
		t.Fatalf("EVENTS has %d replicas, want 3", replicas)
	}
	c.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "d"})
	leader := c.ConsumerLeader(t, "EVENTS", "d")
	if !c.Servers()[leader].JetStreamIsConsumerLeader("$G", "EVENTS", "d") {
		t.Errorf("server %d is not the leader", leader)
	}
	for range 2 {
		moved := c.MoveConsumerLeader(t, "EVENTS", "d")
		if moved == leader {
			t.Fatalf("the leader is still %d", leader)
		}
		leader = moved
	}

	c.StopServer(leader)
	if c.Servers()[leader] != nil {
		t.Error("the stopped server is still listed")
	}
	if next := c.ConsumerLeader(t, "EVENTS", "d"); next == leader {
		t.Errorf("the stopped server %d still leads", leader)
	}
	c.Events(t, 10) // with two of three
	c.StartServer(leader)
	if slices.Contains(c.Servers(), nil) {
		t.Error("a server is missing after StartServer")
	}
	if !c.Servers()[leader].JetStreamIsCurrent() {
		t.Error("the server that came back is not current")
	}
	if info := c.Info(t, "EVENTS", "d"); info.NumPending != 60 {
		t.Errorf("pending %d, want 60", info.NumPending)
	}
	if js := c.JetStream(t); js.Conn().ConnectedUrl() == "" {
		t.Error("not connected")
	}
}

func TestClusterWithoutMajority(t *testing.T) {
	c := Cluster(t, 3)
	c.Events(t, 5)
	for i := range 3 {
		c.StopServer(i)
	}
	c.StartServer(0) // returns although nobody can lead
	if c.Servers()[0].JetStreamIsLeader() {
		t.Error("one server of three leads")
	}
	c.StartServer(1)
	c.Events(t, 5)
}
