package worker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

// round is so many messages, of which the last few are slow. The others are handled at once, so that nothing is stamped when it arrives.
const round = 64

func slowAtTheEndOfARound(last uint64) ackfloor.Handler {
	slow := testutil.Sleep(1200 * time.Millisecond)
	return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		if m.Sequence%round == 0 || m.Sequence%round > round-last {
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
		w := r.startOn(connectLikeWorker(t, s), slowAtTheEndOfARound(4))
		w.working()
		b := r.inAnotherProcess(slowAtTheEndOfARound(4))
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
	w := r.inCluster(c, slowAtTheEndOfARound(4))
	claims.Clear() // as in another process
	b := r.inCluster(c, slowAtTheEndOfARound(4))
	for n := range 3 {
		r.calls.WaitStarted(t, (n+1)*round, 20*time.Second)
		c.MoveConsumerLeader(t, rigStream, rigConsumer)
	}
	r.floor(3*round, time.Minute)
	r.onceEach(3 * round)
	w.ok(w.end())
	b.ok(b.end())
}

func (r *rig) inCluster(c *testutil.C, h ackfloor.Handler, change ...func(*Config)) *running {
	r.t.Helper()
	nc, err := Connect(r.t.Context(), Connection{URL: c.URL()})
	must(r.t, err)
	w := r.startOn(nc, h, append(change, func(c *Config) { c.StartupTimeout = 20 * time.Second })...)
	w.working()
	return w
}

// Only a pull that is open is told that the leader has moved. A worker whose slots are all busy has none: it finds out, and reserves what it holds.
func TestMovedLeaderIsNoticedWithAllSlotsBusy(t *testing.T) {
	noLeaks(t)
	c := testutil.Cluster(t, 3)
	r := newRig(t, c, 20)
	release := make(chan struct{})
	w := r.inCluster(c, testutil.Block(release), func(c *Config) { c.Prefetch = 1 })
	r.calls.WaitStarted(t, 4, 10*time.Second)
	wire, err := c.Conn(t).SubscribeSync("$JS.ACK.>")
	must(t, err)
	w.buf.mu.Lock()
	for d := range w.buf.held.all() {
		d.stamped = 0 // as if they had come just now
	}
	w.buf.mu.Unlock()
	c.MoveConsumerLeader(t, rigStream, rigConsumer)
	reserved := map[string]bool{}
	for end := time.Now().Add(30 * time.Second); len(reserved) < 5; {
		m, err := wire.NextMsg(time.Until(end))
		if err != nil {
			t.Fatalf("%d of the 5 that are held were reserved: %v", len(reserved), err)
		}
		if strings.HasPrefix(string(m.Data), "-NAK") {
			if string(m.Data) != `-NAK {"delay":2000000000}` {
				t.Fatalf("%s: %s", m.Subject, m.Data)
			}
			reserved[m.Subject] = true
		}
	}
	close(release)
	r.floor(20, time.Minute)
	r.onceEach(20)
	w.ok(w.end())
}
