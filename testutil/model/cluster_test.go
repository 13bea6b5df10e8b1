package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/testutil/model"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A change of leader can't be compared in a bubble, since a cluster needs TCP. So the same is done to a cluster and to the model in real time, and
// what comes is compared without its times.
func TestConformanceOfALeaderChange(t *testing.T) {
	var seen [2][]string
	t.Run("both", func(t *testing.T) { moveBoth(t, &seen) })
	if !slices.Equal(seen[0], seen[1]) {
		t.Fatalf("nats-server:\n\t%s\nthe model:\n\t%s", strings.Join(seen[0], "\n\t"), strings.Join(seen[1], "\n\t"))
	}
	all := strings.Join(seen[0], "\n")
	for _, s := range []string{"Leadership Change", "again 2/1 2/3", "3/4", "floor 6"} {
		if !strings.Contains(all, s) {
			t.Errorf("%q is not in\n%s", s, all)
		}
	}
}

func moveBoth(t *testing.T, seen *[2][]string) {
	t.Run("nats-server", func(t *testing.T) {
		t.Parallel() // to the other of the two, and to nothing else
		c := testutil.Cluster(t, 3)
		c.Stream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}, Replicas: 3})
		seen[0] = moveLeader(t, c.Conn(t), func() { c.MoveConsumerLeader(t, "EVENTS", "D") })
	})
	t.Run("the model", func(t *testing.T) {
		t.Parallel()
		m := model.New(model.Config{Stream: "EVENTS", Subjects: []string{"events.>"}, Replicas: 3})
		t.Cleanup(m.Close)
		nc, err := m.Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		seen[1] = moveLeader(t, nc, func() { m.MoveLeader(50 * time.Millisecond) })
	})
}

// mover sees what comes on pulls.
type mover struct {
	t     *testing.T
	nc    *nats.Conn
	in    *nats.Subscription
	asked int // messages, by the last pull
}

// moveLeader holds six messages that were published longer than ack_wait ago, with a word of progress for three of them, while the leader moves.
func moveLeader(t *testing.T, nc *nats.Conn, move func()) (seen []string) {
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	const wait = 10 * time.Second // no election takes longer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := js.CreateConsumer(ctx, "EVENTS", jetstream.ConsumerConfig{Durable: "D", AckPolicy: jetstream.AckExplicitPolicy, AckWait: wait}); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		if _, err := js.Publish(ctx, "events.x", nil); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(wait + 200*time.Millisecond)
	in, err := nc.SubscribeSync("in")
	if err != nil {
		t.Fatal(err)
	}
	m := &mover{t: t, nc: nc, in: in}
	m.pull(6)
	held := m.next(6)
	seen = append(seen, "held "+counts(held))
	m.settle(held[3], "-NAK")
	m.pull(1)
	held[3] = m.next(1)[0]
	m.settle(held[5], "+ACK")
	elected, err := nc.SubscribeSync("$JS.EVENT.ADVISORY.CONSUMER.LEADER_ELECTED.EVENTS.D")
	if err != nil {
		t.Fatal(err)
	}
	seen = append(seen, "told "+m.move(move, held[1], held[3], held[4]))
	m.pull(2)
	again := m.next(2) // at once
	if n, _, err := elected.Pending(); err != nil || n == 0 {
		t.Fatalf("the new leader delivers, and has not said that it is one: %v", err)
	}
	seen = append(seen, "elected "+about(t, elected), "again "+counts(again))
	for _, msg := range []*nats.Msg{held[1], held[4], again[0], again[1]} { // by the old subjects where they hold
		m.settle(msg, "+ACK")
	}
	m.settle(held[3], "-NAK")
	m.pull(1)
	last := m.next(1)
	seen = append(seen, "at last "+counts(last))
	m.settle(last[0], "+ACK")
	c, err := js.Consumer(ctx, "EVENTS", "D")
	if err != nil {
		t.Fatal(err)
	}
	i := c.CachedInfo()
	return append(seen, fmt.Sprintf("floor %d/%d, ack pending %d, redelivered %d", i.AckFloor.Stream, i.AckFloor.Consumer, i.NumAckPending, i.NumRedelivered))
}

// move moves the leader while a pull is open, behind word of progress for some of what is held. It returns what the pull was told. A leader may change
// before the others have heard of a pull: then it is told nothing, and all is done once more.
func (m *mover) move(move func(), stamped ...*nats.Msg) string {
	m.t.Helper()
	for range 3 {
		for _, msg := range stamped {
			m.settle(msg, "+WPI")
		}
		m.pull(10)
		time.Sleep(500 * time.Millisecond) // the answer to word of progress comes before a majority has stored it
		move()
		if status := m.within(5*time.Second, 1); len(status) == 1 {
			return fmt.Sprint(status[0].Header)
		}
	}
	m.t.Fatal("a pull that was open when the leader changed was told nothing, three times")
	return ""
}

// pull asks for messages.
func (m *mover) pull(n int) {
	m.t.Helper()
	m.asked = n
	if err := m.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.EVENTS.D", "in", fmt.Appendf(nil, `{"batch":%d,"expires":30000000000}`, n)); err != nil {
		m.t.Fatal(err)
	}
}

// next waits for what comes.
func (m *mover) next(n int) []*nats.Msg {
	m.t.Helper()
	out := m.within(30*time.Second, n)
	if len(out) < n {
		m.t.Fatalf("%d of %d came: %s", len(out), n, counts(out))
	}
	return out
}

// within waits for a while. Where a pull met nobody, since its server had not heard of the leader yet, it is sent again.
func (m *mover) within(d time.Duration, n int) (out []*nats.Msg) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), d)
	defer cancel()
	for len(out) < n {
		msg, err := m.in.NextMsgWithContext(ctx)
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			time.Sleep(20 * time.Millisecond)
			m.pull(m.asked)
		case err != nil:
			return out
		default:
			out = append(out, msg)
		}
	}
	return out
}

// settle sends a settlement until it is answered.
func (m *mover) settle(msg *nats.Msg, body string) {
	m.t.Helper()
	for range 60 {
		ctx, cancel := context.WithTimeout(m.t.Context(), 500*time.Millisecond)
		_, err := m.nc.RequestWithContext(ctx, msg.Reply, []byte(body))
		cancel()
		if err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	m.t.Fatalf("%s for %s was not answered", body, msg.Reply)
}

// about is what an advisory is about, but for the leader's name.
func about(t *testing.T, advisories *nats.Subscription) string {
	t.Helper()
	m, err := advisories.NextMsg(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var a struct{ Type, Stream, Consumer, Leader string }
	if err := json.Unmarshal(m.Data, &a); err != nil || a.Leader == "" {
		t.Fatalf("%s: %v", m.Data, err)
	}
	return fmt.Sprint(a.Type, " ", a.Stream, " ", a.Consumer)
}

// counts lists how often what came was delivered, and its sequence in the stream.
func counts(msgs []*nats.Msg) string {
	var out []string
	for _, m := range msgs {
		if t := strings.Split(m.Reply, "."); len(t) == 9 {
			out = append(out, t[4]+"/"+t[5])
		} else {
			out = append(out, fmt.Sprint(m.Header))
		}
	}
	return strings.Join(out, " ")
}
