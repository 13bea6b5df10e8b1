package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

// round is so many messages, of which the last four are slow. The others are handled at once, so that nothing is stamped when it arrives.
const round = 64

func slowAtTheEndOfARound() ackfloor.Handler {
	slow := testutil.Sleep(1200 * time.Millisecond)
	return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		if m.Sequence%round == 0 || m.Sequence%round > round-4 {
			return slow.Handle(ctx, m)
		}
		return nil
	})
}

// A server that starts queues everything for another delivery that was not stamped and is older than ack_wait. What arrived in the last moment before, and is held
// still, is taken off that queue by who holds it.
func TestRestartDoesNotRedeliverWhatHasJustArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 3*round)
		time.Sleep(10 * time.Second) // the backlog is older than ack_wait
		w := r.startOn(connectLikeWorker(t, s), slowAtTheEndOfARound())
		w.working()
		b := r.inAnotherProcess(slowAtTheEndOfARound())
		for n := range 3 {
			r.calls.WaitStarted(t, (n+1)*round, time.Minute)
			time.Sleep(10 * time.Millisecond) // less than stampEarly
			s.Restart()
		}
		r.floor(3*round, time.Minute)
		r.onceEach(3 * round)
		w.ok(w.end())
		b.ok(b.end())
	})
}

// The same where the consumer's leader moves.
func TestMovedLeaderDoesNotRedeliverWhatHasJustArrived(t *testing.T) {
	noLeaks(t)
	c := testutil.Cluster(t, 3)
	r := newRig(t, c, 3*round)
	time.Sleep(2100 * time.Millisecond) // the backlog is older than ack_wait
	connected := func() *running {
		nc, err := Connect(t.Context(), Connection{URL: c.URL()})
		must(t, err)
		w := r.startOn(nc, slowAtTheEndOfARound(), func(c *Config) { c.StartupTimeout = 20 * time.Second })
		w.working()
		return w
	}
	w := connected()
	claims.Clear() // as in another process
	b := connected()
	for n := range 3 {
		r.calls.WaitStarted(t, (n+1)*round, 20*time.Second)
		c.MoveConsumerLeader(t, rigStream, rigConsumer)
	}
	r.floor(3*round, time.Minute)
	r.onceEach(3 * round)
	w.ok(w.end())
	b.ok(b.end())
}
