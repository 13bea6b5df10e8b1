package testutil

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// serverName is the name of server i of a cluster, of either kind.
func serverName(i int) string { return "n" + strconv.Itoa(i) }

// serverNumber is the i of a name, of a cluster of n.
func serverNumber(t testing.TB, name string, n int) int {
	t.Helper()
	for i := range n {
		if serverName(i) == name {
			return i
		}
	}
	t.Fatalf("testutil: the leader is %q, which is none of the cluster's", name)
	return -1
}

// consumerLeader returns the name of the server that leads the consumer; it waits for an election to end.
func (a *Access) consumerLeader(t testing.TB, stream, consumer string) string {
	t.Helper()
	return a.WaitInfo(t, stream, consumer, startLimit, "a leader", led).Cluster.Leader
}

// streamLeader returns the name of the server that leads the stream; it waits for an election to end.
func (a *Access) streamLeader(t testing.TB, stream string) string {
	t.Helper()
	name := ""
	if !poll(startLimit, func() bool {
		a.ask(t, "the leader of stream "+stream, func(ctx context.Context, js jetstream.JetStream) error {
			s, err := js.Stream(ctx, stream)
			if err == nil && s.CachedInfo().Cluster != nil {
				name = s.CachedInfo().Cluster.Leader
			}
			return err
		})
		return name != ""
	}) {
		t.Fatalf("testutil: stream %s has no leader after %v", stream, startLimit)
	}
	return name
}

func led(i *jetstream.ConsumerInfo) bool { return i.Cluster != nil && i.Cluster.Leader != "" }

// moveConsumerLeader makes the consumer's leader step down, waits until another server leads it and answers, and returns that one's name.
func (a *Access) moveConsumerLeader(t testing.TB, stream, consumer string) string {
	t.Helper()
	before := a.consumerLeader(t, stream, consumer)
	var asked time.Time
	return a.WaitInfo(t, stream, consumer, startLimit, "another leader than "+before, func(i *jetstream.ConsumerInfo) bool {
		if led(i) && i.Cluster.Leader != before {
			return true
		}
		// Asked again where the election had the same winner, or the request met no leader.
		if time.Since(asked) > requestLimit {
			asked = time.Now()
			a.stepDown(t, stream, consumer)
		}
		return false
	}).Cluster.Leader
}

func (a *Access) stepDown(t testing.TB, stream, consumer string) {
	t.Helper()
	err := asking(t, func(ctx context.Context) error {
		msg, err := a.connection(t).RequestWithContext(ctx, "$JS.API.CONSUMER.LEADER.STEPDOWN."+stream+"."+consumer, nil)
		if err != nil {
			return err
		}
		var answer struct {
			Error *jetstream.APIError `json:"error"`
		}
		if err := json.Unmarshal(msg.Data, &answer); err != nil {
			return err
		}
		if answer.Error != nil {
			return answer.Error
		}
		return nil
	})
	if err != nil {
		t.Fatalf("testutil: making the leader of consumer %s/%s step down: %v", stream, consumer, err)
	}
}
