package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ackfloor/ackfloor/testutil"
)

// Cluster is what can break of a cluster, as far as one consumer is concerned.
type Cluster struct {
	Servers          *testutil.PC
	JS               jetstream.JetStream // to ask who leads, and to make it step down
	Stream, Consumer string
}

// MoveLeader is a fault: the consumer's leader steps down, and another server leads it.
func (c Cluster) MoveLeader(every time.Duration) Fault {
	return Fault{Name: "move of the leader", Every: every, Of: c.Servers, Do: func(ctx context.Context, _ *rand.Rand) error {
		asking, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		m, err := c.JS.Conn().RequestWithContext(asking, "$JS.API.CONSUMER.LEADER.STEPDOWN."+c.Stream+"."+c.Consumer, nil)
		if err != nil {
			return ErrMissed // during an election nobody answers
		}
		var answer struct {
			Error *jetstream.APIError `json:"error"`
		}
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			return fmt.Errorf("the answer to a step-down: %w", err)
		}
		if answer.Error != nil {
			return ErrMissed
		}
		_, err = c.leader(ctx)
		return err
	}}
}

// KillLeader is a fault: the server that leads the consumer is killed with SIGKILL, is away for about as long as down, and is started again.
func (c Cluster) KillLeader(every, down time.Duration) Fault {
	return c.kill("kill -9 of the leader", every, down, func(leader int, _ *rand.Rand) int { return leader })
}

// KillFollower is a fault: a server that does not lead the consumer is killed with SIGKILL, is away for about as long as down, and is started again.
func (c Cluster) KillFollower(every, down time.Duration) Fault {
	return c.kill("kill -9 of a follower", every, down, func(leader int, draw *rand.Rand) int {
		n := c.Servers.Size()
		return (leader + 1 + draw.IntN(n-1)) % n
	})
}

func (c Cluster) kill(name string, every, down time.Duration, which func(leader int, draw *rand.Rand) int) Fault {
	return Fault{Name: name, Every: every, Of: c.Servers, Do: func(ctx context.Context, draw *rand.Rand) error {
		d := about(draw, down)
		leader, err := c.leader(ctx)
		if err != nil {
			return err
		}
		victim := c.Servers.Server(which(leader, draw))
		victim.Kill()
		rest(ctx, d)
		victim.Start()
		return nil
	}}
}

// LoseMajority is a fault: servers are killed with SIGKILL until no majority is left, are away for about as long as down, and are started again.
func (c Cluster) LoseMajority(every, down time.Duration) Fault {
	return Fault{Name: "loss of the majority", Every: every, Of: c.Servers, Do: func(ctx context.Context, draw *rand.Rand) error {
		d := about(draw, down)
		n := c.Servers.Size()
		victims := draw.Perm(n)[:n-n/2]
		for _, i := range victims {
			c.Servers.Server(i).Kill()
		}
		rest(ctx, d)
		for _, i := range victims {
			c.Servers.Server(i).Start()
		}
		return nil
	}}
}

// leader waits until the consumer has a leader, and returns its number. The error wraps ErrMissed when ctx ends before.
func (c Cluster) leader(ctx context.Context) (int, error) {
	for ctx.Err() == nil {
		if name := c.ask(ctx); name != "" {
			i, err := strconv.Atoi(strings.TrimPrefix(name, "n"))
			if err != nil || i >= c.Servers.Size() {
				return 0, fmt.Errorf("the leader is %q, which is none of the cluster's", name)
			}
			return i, nil
		}
		rest(ctx, 20*time.Millisecond)
	}
	return 0, ErrMissed
}

// ask returns the name of the leader, "" where it is not known.
func (c Cluster) ask(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	consumer, err := c.JS.Consumer(ctx, c.Stream, c.Consumer)
	if err != nil || consumer.CachedInfo().Cluster == nil {
		return ""
	}
	return consumer.CachedInfo().Cluster.Leader
}
