package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// Three Runners in one process, of which one panics on message 7 in a way of its own: it gives up that message alone, as a dead letter, and the others reach their floors.
func TestPanicsEndInTheDeadLetters(t *testing.T) {
	var nilMap map[string]int
	for name, h := range map[string]ackfloor.Handler{
		"an error": testutil.Panic(errWork), "nil": testutil.Panic(nil), "Goexit": testutil.Goexit(),
		"a nil map":                   ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { nilMap["x"]++; return nil }),
		"an error that panics itself": testutil.Panic((*brokenError)(nil)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 100)
				nc := s.Conn(t)
				var runners []*Runner
				for _, consumer := range []string{"A", "B", "C"} {
					cfg := r.cfg
					withLetters(&cfg)
					cfg.Consumer = consumer
					handler := testutil.Succeed()
					if consumer == "B" {
						handler = testutil.ByData(map[string]ackfloor.Handler{"6": h}, handler)
					}
					runner, err := New(nc, cfg, handler)
					must(t, err)
					runners = append(runners, runner)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- RunAll(ctx, runners...) }()
				for _, consumer := range []string{"A", "B", "C"} {
					s.WaitInfo(t, rigStream, consumer, 10*time.Second, "floor 100", floorAt(100))
				}
				letters := r.awaitLetters(1, 10*time.Second)
				cancel()
				must(t, <-done)
				if l := letters[0]; len(letters) != 1 || l.Consumer != "B" || l.MessageSequence != 7 || l.Attempts != 5 || l.Reason != deadletter.ReasonExhausted {
					t.Errorf("%d letters, the first says %+v", len(letters), l)
				}
				for i, w := range runners {
					if c := w.Status().Counts; (i == 1) != (c.DeadLettered == 1) || (i == 1) != (c.Panics == 5) || i != 1 && c.Redelivered > 0 {
						t.Errorf("%d: counted %+v", i, c)
					}
				}
			})
		})
	}
}

// With real processes: killed (SIGKILL) in every attempt, so that no code of theirs says what became of the message. It ends as one dead letter, the others are handled.
func TestKilledOnEveryAttempt(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	s.Events(t, 4)
	out := filepath.Join(t.TempDir(), "out")
	r := newRig(t, s, -1)
	kills := 0
	for {
		k := spawn(t, "main", s.URL(), out, "SLOW=2", "WORK=1ms", "WORKER_ACK_WAIT=500ms", "WORKER_EXIT_WHEN_IDLE=true")
		over := false
		for deadline := time.Now().Add(30 * time.Second); events(t, out, "start")[2] <= kills && !over; time.Sleep(10 * time.Millisecond) {
			select {
			case <-k.ended:
				over = true
			default:
			}
			if time.Now().After(deadline) {
				t.Fatal("it neither handles nor ends")
			}
		}
		if over {
			break
		}
		k.signal(syscall.SIGKILL)
		k.exit(30 * time.Second)
		if kills++; kills > 6 {
			t.Fatalf("%d kills", kills)
		}
	}
	letters := r.awaitLetters(1, 30*time.Second)
	if l := letters[0]; len(letters) != 1 || kills < 3 || l.MessageSequence != 2 || l.Subject != "events.1" || l.Deliveries < kills || l.Reason != deadletter.ReasonCrash || l.Error == "" {
		t.Errorf("after %d kills %d letters, the first says %+v", kills, len(letters), l)
	}
	r.floor(4, 30*time.Second)
	if n := len(events(t, out, "end")); n != 3 {
		t.Errorf("%d others were handled", n)
	}
}

// The dead letters of one consumer find no room, those of another do: each keeps or goes on by itself, and neither holds up the other.
func TestLettersAreFullForOneConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 20)
		bad := func() ackfloor.Handler {
			return testutil.ByData(map[string]ackfloor.Handler{"3": permanent(), "4": permanent()}, testutil.Succeed())
		}
		full := jetstream.StreamConfig{Name: "FULL", Subjects: []string{"dlq." + rigStream + ".D.>"}, Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1, AllowDirect: true, MaxMsgs: 1}
		s.Stream(t, full)
		s.Stream(t, jetstream.StreamConfig{Name: "ROOM", Subjects: []string{"dlq." + rigStream + ".E.>"}, Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1, AllowDirect: true})
		a := r.start(bad(), withLetters, func(c *Config) { c.DeadLetter = "FULL" })
		b := r.start(bad(), withLetters, func(c *Config) { c.Consumer, c.DeadLetter = "E", "ROOM" })
		s.WaitInfo(t, rigStream, "E", 5*time.Second, "floor 20", floorAt(20))
		time.Sleep(10 * time.Second)
		if st := a.Status(); st.Ready || st.Kept != 1 || st.Counts.Acked != 18 || st.Counts.DeadLettered != 1 {
			t.Errorf("full: ready %v, kept %d, counted %+v", st.Ready, st.Kept, st.Counts)
		}
		if st := b.Status(); !st.Ready || st.Kept != 0 || st.Counts.DeadLettered != 2 {
			t.Errorf("room: ready %v (%s), kept %d, counted %+v", st.Ready, st.Reason, st.Kept, st.Counts)
		}
		full.MaxMsgs = -1
		s.Stream(t, full)
		r.floor(20, 10*time.Second)
		a.ok(a.end())
		b.ok(b.end())
		if n := a.Status().Counts.DeadLettered; n != 2 {
			t.Errorf("%d letters when there is room", n)
		}
	})
}

// A message is deleted from its stream, or the stream purged, while it is handled: what is given up is in the dead letters all the same, whole, and can be replayed.
func TestLetterOfADeletedMessage(t *testing.T) {
	for _, size := range []int{10, 1<<20 - 200} {
		t.Run(fmt.Sprint(size, " bytes"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 0)
				body := strings.Repeat("x", size)
				put(t, s, "events.x", body, nil)
				gone := make(chan struct{})
				var mended atomic.Bool
				w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
					<-gone
					if mended.Load() && string(m.Data) == body {
						return nil
					}
					return ackfloor.Permanent(errWork)
				}), withLetters)
				r.calls.WaitStarted(t, 1, time.Second)
				w.replaying()
				stream, err := s.JetStream(t).Stream(t.Context(), rigStream)
				must(t, err)
				must(t, stream.Purge(t.Context()))
				close(gone)
				var all []*deadletter.Letter
				for range 200 { // a large one is stored in two parts
					if all = r.own(); len(all) > 0 {
						break
					}
					time.Sleep(50 * time.Millisecond)
				}
				l, err := r.store().Get(t.Context(), all[0].Sequence)
				must(t, err)
				if string(l.Data) != body || l.MessageSequence != 1 {
					t.Errorf("the letter has %d bytes of %d", len(l.Data), size)
				}
				mended.Store(true)
				r.replay(l)
				time.Sleep(5 * time.Second)
				if n := w.Status().Counts; r.calls.Count(1) != 2 || n.DeadLettered != 1 {
					t.Errorf("replayed: %d calls, counted %+v", r.calls.Count(1), n)
				}
				w.ok(w.end())
			})
		})
	}
}

// A replay fails again, while its letter can't be written: it is kept, and when there is room there is one letter of it, behind as many replays as there were.
func TestReplayFailsAgainWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w, letters, _ := replayRig(t, 1, testutil.Succeed())
		s := r.s.(*testutil.S)
		stream, err := s.JetStream(t).Stream(t.Context(), rigStream+"_DLQ")
		must(t, err)
		cfg := stream.CachedInfo().Config
		r.replay(letters...)
		time.Sleep(5 * time.Second)
		second := r.own()
		if len(second) != 1 || second[0].Replays != 1 {
			t.Fatalf("%d letters, the first says %+v", len(second), second[0])
		}
		full := cfg
		full.MaxMsgs = int64(stream.CachedInfo().State.Msgs) // the next replay's own order needs a place too
		_, err = s.JetStream(t).UpdateStream(t.Context(), full)
		must(t, err)
		box := r.store()
		for range 3 { // without room for the replay itself it is refused, and nothing is lost
			if _, err := box.Replay(t.Context(), second[0]); err != nil && !errors.Is(err, deadletter.ErrFull) {
				t.Logf("without room: %v", err)
			}
		}
		time.Sleep(10 * time.Second)
		_, err = s.JetStream(t).UpdateStream(t.Context(), cfg)
		must(t, err)
		time.Sleep(10 * time.Second)
		last := r.own()
		if len(last) != 1 || last[0].MessageSequence != 1 || last[0].State != deadletter.StateOpen {
			t.Errorf("%d letters, the first says %+v", len(last), last[0])
		}
		if n := r.calls.Count(1); n != 1+last[0].Replays {
			t.Errorf("%d calls, %d replays", n, last[0].Replays)
		}
		w.ok(w.end())
	})
}

// Subjects that stand out: tokens of two hundred characters, many tokens, signs that mean something elsewhere. Each is in its letter, and a replay has it again.
func TestLettersOfOddSubjects(t *testing.T) {
	subjects := []string{"events." + strings.Repeat("t", 200) + "." + strings.Repeat("u", 200), "events" + strings.Repeat(".t", 60), "events.größe.日本", "events.a$b.$JS.x", "events.%.#.@.!.\"'",
		"events.a/b\\c", "events.-._", "events.{}.[]", "events.\x7f", "events.a,b"}
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		publish(t, s, subjects...)
		var mended atomic.Bool
		w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			if mended.Load() {
				return nil
			}
			return ackfloor.Permanent(errWork)
		}), withLetters)
		letters := r.awaitLetters(len(subjects), 10*time.Second)
		r.floor(uint64(len(subjects)), 5*time.Second)
		w.replaying()
		mended.Store(true)
		r.replay(letters...)
		time.Sleep(10 * time.Second)
		seen := map[string]int{}
		for _, c := range r.calls.Calls() {
			seen[c.Subject]++
		}
		for _, l := range letters {
			if subject := subjects[l.MessageSequence-1]; l.Subject != subject || seen[subject] != 2 {
				t.Errorf("%q: the letter says %q, %d calls", subject, l.Subject, seen[subject])
			}
		}
		w.ok(w.end())
	})
}
