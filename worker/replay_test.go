package worker

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
)

// A replay reaches the consumer that failed and no other, as the message that it was; looking changes nothing; a second replay is none.
func TestReplayReachesOnlyTheConsumerThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 3)
		put(t, s, "events.order", "bad", nats.Header{"User": {"x"}, "Nats-Msg-Id": {"id-1"}})
		o := r.start(testutil.Succeed(), withLetters, func(c *Config) { c.Consumer = "other" })
		var mended atomic.Bool
		var seen []*ackfloor.Message
		w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			if string(m.Data) == "bad" {
				seen = append(seen, m)
				if !mended.Load() {
					return ackfloor.Permanent(errWork)
				}
			}
			return nil
		}), withLetters)
		r.awaitLetters(1, 10*time.Second)
		box := r.store()
		list := func() *deadletter.Letter {
			t.Helper()
			ls := r.letters()
			if len(ls) != 1 {
				t.Fatalf("%d letters", len(ls))
			}
			return ls[0]
		}
		l := list()
		again, err := box.Get(context.Background(), l.Sequence)
		must(t, err)
		if l.State != deadletter.StateOpen || again.MessageSequence != 4 || list().Sequence != l.Sequence {
			t.Errorf("the letter says %+v", l)
		}

		// It fails again: the letter that stands is the new one.
		_, err = box.Replay(context.Background(), l)
		must(t, err)
		time.Sleep(5 * time.Second)
		second := list()
		if second.Replays != 1 || second.ReplayOf != l.Sequence || second.MessageSequence != 4 || second.Subject != "events.order" || second.State != deadletter.StateOpen {
			t.Errorf("after a replay that failed the letter says %+v", second)
		}

		// Mended, it is handled, once.
		mended.Store(true)
		res, err := box.Replay(context.Background(), second)
		must(t, err)
		if res.Already {
			t.Error("the first replay of the second letter is said to be there already")
		}
		time.Sleep(5 * time.Second)
		for range 2 {
			if res, err = box.Replay(context.Background(), second); err != nil || !res.Already {
				t.Errorf("a second replay: %+v, %v", res, err)
			}
		}
		time.Sleep(5 * time.Second)
		if l := list(); l.State != deadletter.StateHandled {
			t.Errorf("the letter's state is %s", l.State)
		}
		if len(seen) != 3 {
			t.Fatalf("the handler saw it %d times, want 3", len(seen))
		}
		for i, m := range seen {
			if m.Subject != "events.order" || m.Stream != rigStream || m.Consumer != rigConsumer || m.Sequence != 4 || m.Attempt != 1 || m.ID() != "id-1" || m.Header.Get("User") != "x" || !m.Published.Equal(seen[0].Published) {
				t.Errorf("call %d saw %+v", i, m)
			}
		}
		if seen[0].Header.Get(deadletter.HeaderReplays) != "" || seen[2].Header.Get(deadletter.HeaderReplays) != "2" {
			t.Errorf("replays: %v, %v", seen[0].Header, seen[2].Header)
		}
		if c := o.Status().Counts; c.Acked != 4 || c.Received != 4 {
			t.Errorf("the other consumer: %+v", c)
		}
		w.ok(w.end())
		o.ok(o.end())
	})
}

// Replays use the Runner's slots: with one of them, never two handlers at once.
func TestReplaysUseTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 10)
		var mended atomic.Bool
		w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			time.Sleep(100 * time.Millisecond)
			if !mended.Load() {
				return ackfloor.Permanent(errWork)
			}
			return nil
		}), withLetters, func(c *Config) { c.Concurrency = 1 })
		letters := r.awaitLetters(10, 20*time.Second)
		mended.Store(true)
		box := r.store()
		for _, l := range letters {
			_, err := box.Replay(context.Background(), l)
			must(t, err)
			put(t, s, "events.x", "more", nil)
		}
		r.floor(20, 20*time.Second)
		time.Sleep(10 * time.Second)
		if n := r.calls.MaxConcurrent(); n != 1 {
			t.Errorf("%d handlers at once in one slot", n)
		}
		for seq := uint64(1); seq <= 20; seq++ {
			want := 1
			if seq <= 10 {
				want = 2
			}
			if n := r.calls.Count(seq); n != want {
				t.Errorf("message %d was handled %d times", seq, n)
			}
		}
		w.ok(w.end())
	})
}
