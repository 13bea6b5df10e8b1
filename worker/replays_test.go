package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// replayRig has n messages given up by a worker that runs, whose handler does what then says as soon as mended is set.
func replayRig(t *testing.T, n int, then ackfloor.Handler, change ...func(*Config)) (r *rig, w *running, letters []*deadletter.Letter, mended *atomic.Bool) {
	t.Helper()
	r, mended = newRig(t, testutil.Bubble(t), n), new(atomic.Bool)
	w = r.start(ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		if !mended.Load() {
			return ackfloor.Permanent(errWork)
		}
		return then.Handle(ctx, m)
	}), append([]func(*Config){withLetters}, change...)...)
	letters = r.awaitLetters(n, 10*time.Second)
	r.floor(uint64(n), 5*time.Second)
	w.replaying()
	return r, w, letters, mended
}

// Replays take a quarter of the slots at the most: the stream goes on beside them.
func TestReplaysTakeFewSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w, letters, mended := replayRig(t, 12, testutil.Sleep(time.Second), func(c *Config) { c.Concurrency = 8 })
		mended.Store(true)
		r.replay(letters...)
		time.Sleep(20 * time.Second)
		most, began := 0, map[time.Time]int{}
		for _, c := range r.calls.Calls() {
			if c.Err == nil {
				began[c.Start]++
				most = max(most, began[c.Start])
			}
		}
		if most > 2 || r.calls.Count(12) != 2 {
			t.Errorf("%d replays at once in 8 slots; %d calls of the last", most, r.calls.Count(12))
		}
		w.ok(w.end())
	})
}

// A worker that ends when idle handles the replays that wait first, and ends also where there is no stream of dead letters any more.
func TestIdleWaitsForReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w, letters, mended := replayRig(t, 6, testutil.Sleep(time.Second))
		w.ok(w.end())
		mended.Store(true)
		r.replay(letters...)
		idle := func(c *Config) { c.ExitWhenIdle, c.Concurrency, c.DrainTimeout = true, 1, 2*time.Second }
		w = r.start(testutil.Sleep(time.Second), withLetters, idle)
		w.ok(w.wait(time.Minute))
		for seq := range uint64(6) {
			if n := r.calls.Count(seq + 1); n != 2 {
				t.Errorf("%d calls of %d", n, seq+1)
			}
		}
		w = r.start(testutil.Sleep(3*time.Second), withLetters, idle)
		puts(t, r.s, 1, "x")
		w.replaying()
		must(t, r.s.(*testutil.S).JetStream(t).DeleteStream(context.Background(), rigStream+"_DLQ"))
		w.ok(w.wait(5 * time.Minute))
	})
}

// Without the rights for replays a worker is idle all the same, says it once, and asks no more.
func TestReplaysWithoutRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, start := lockedRig(t, 5, slices.Concat(bindOnly, creating, writeLetters), ownInbox)
		r.lettersAtMost(-1)
		w := start(testutil.Succeed(), withLetters)
		time.Sleep(20 * time.Second)
		child := w.replays.Load()
		time.Sleep(5 * time.Minute)
		if n := r.logged("replays of dead letters are not handled"); n != 1 || w.replays.Load() != child || !w.Status().Ready {
			t.Errorf("said %d times; another try %v", n, w.replays.Load() != child)
		}
		w.ok(w.end())
		w = start(testutil.Succeed(), withLetters, func(c *Config) { c.ExitWhenIdle = true })
		w.ok(w.wait(time.Minute))
	})
}

// A replay whose message can't be read whole is not handled in part, and ends as a letter again.
func TestLargeReplayWithoutTheRightToRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rights := slices.Concat(bindOnly, creating, writeLetters, []string{"$JS.API.STREAM.INFO.EVENTS_DLQ"}, makeLetters, bindRecords, makeRecords, bindReplays, makeReplays)
		r, start := lockedRig(t, -1, rights, ownInbox)
		s := r.s.(*testutil.S)
		s.Stream(t, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}})
		r.lettersAtMost(-1)
		_, err := s.JetStream(t, r.admin...).Publish(context.Background(), "events.x", []byte(strings.Repeat("x", 1<<20-100)))
		must(t, err)
		w := start(testutil.Fail(1, ackfloor.Permanent(errWork)), withLetters)
		l := r.awaitLetters(1, 10*time.Second)[0]
		w.replaying()
		r.replay(l)
		time.Sleep(time.Minute)
		if l := r.letters()[0]; l.State == deadletter.StateHandled || r.calls.Count(1) != 1 {
			t.Errorf("%d calls, the letter's state is %v", r.calls.Count(1), l.State)
		}
		_ = w.end()
	})
}

// A large replay whose rest can't be had for a moment is handled when it can.
func TestLargeReplayInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		s.Stream(t, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}})
		r := newRig(t, s, -1)
		put(t, s, "events.x", strings.Repeat("x", 1<<20-10), nil)
		w := r.start(testutil.Fail(1, ackfloor.Permanent(errWork)), withLetters)
		l := r.awaitLetters(1, 10*time.Second)[0]
		w.replaying()
		r.replay(l)
		s.Stop()
		time.Sleep(time.Second)
		s.Start()
		time.Sleep(time.Minute)
		if l := r.letters()[0]; l.State != deadletter.StateHandled || len(r.calls.Calls()) != 2 {
			t.Errorf("%d calls, the letter's state is %v", len(r.calls.Calls()), l.State)
		}
		w.ok(w.end())
	})
}

// Replays go on when their consumer, or the stream of the dead letters, has been deleted and made again.
func TestReplaysGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w, letters, mended := replayRig(t, 2, testutil.Succeed())
		js := r.s.(*testutil.S).JetStream(t)
		must(t, js.DeleteConsumer(context.Background(), rigStream+"_DLQ", deadletter.ReplayConsumer(rigStream, rigConsumer)))
		mended.Store(true)
		r.replay(letters[0])
		time.Sleep(time.Minute)
		if n := r.calls.Count(letters[0].MessageSequence); n != 2 {
			t.Errorf("behind the deletion of the consumer: %d calls", n)
		}
		must(t, js.DeleteStream(context.Background(), rigStream+"_DLQ"))
		time.Sleep(30 * time.Second)
		r.lettersAtMost(-1)
		mended.Store(false)
		puts(t, r.s, 1, "third")
		letters = r.awaitLetters(1, 20*time.Second)
		mended.Store(true)
		r.replay(letters...)
		time.Sleep(time.Minute)
		if n := r.calls.Count(3); n != 2 {
			t.Errorf("behind the deletion of the stream: %d calls", n)
		}
		w.ok(w.end())
	})
}

// A stop just after the stream of the dead letters was deleted is a clean one.
func TestStopBehindTheDeletionOfDeadLetters(t *testing.T) {
	for i := range 10 {
		synctest.Test(t, func(t *testing.T) {
			s := testutil.Bubble(t)
			r := newRig(t, s, 1)
			w := r.start(testutil.Succeed(), withLetters)
			w.replaying()
			must(t, s.JetStream(t).DeleteStream(context.Background(), rigStream+"_DLQ"))
			time.Sleep(time.Duration(i) * 600 * time.Millisecond)
			if err := w.end(); err != nil {
				t.Errorf("%d ms behind it Run returned %v", i*600, err)
			}
		})
	}
}

// Replays that run, hang or wait when the grace ends are handed back as messages are, and nothing is left of them.
func TestReplaysAtTheEndOfTheGrace(t *testing.T) {
	for _, hung := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			gate := make(chan struct{})
			h := testutil.Sleep(time.Minute)
			if hung {
				h = ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { <-gate; return nil })
			}
			r, w, letters, mended := replayRig(t, 8, h, func(c *Config) { c.Concurrency, c.DrainTimeout = 1, time.Second })
			mended.Store(true)
			r.replay(letters...)
			puts(t, r.s, 1, "x")
			time.Sleep(3 * time.Second)
			child := w.replays.Load()
			var broken *DrainError
			if err := w.end(); !errors.As(err, &broken) || w.took > 3*time.Second {
				t.Errorf("hung %v: it took %v, Run returned %v", hung, w.took, err)
			}
			close(gate)
			time.Sleep(time.Minute)
			synctest.Wait()
			if held := w.holds() + child.holds(); held != "" {
				t.Errorf("hung %v: %s", hung, held)
			}
		})
	}
}

// Where the connection is closed for good a replay that waits for a slot gives up: no goroutine is left behind.
func TestReplayThatWaitsEndsWithTheRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		h := ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { <-gate; return nil })
		r, w, letters, mended := replayRig(t, 1, h, func(c *Config) { c.Concurrency = 1 })
		mended.Store(true)
		puts(t, r.s, 1, "long") // takes the slot
		time.Sleep(time.Second)
		r.replay(letters...)
		time.Sleep(3 * time.Second)
		w.nc.Close()
		<-w.done
		close(gate)
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.buf.waiting > 0 || len(w.buf.guests) > 0 || r.calls.Count(1) != 1 {
			t.Errorf("%d wait, %d run, %d calls of the replay", w.buf.waiting, len(w.buf.guests), r.calls.Count(1))
		}
	})
}

// A replay whose lease is lost while it waits for a slot is another's: its handler is called once.
func TestReplayThatLosesItsLeaseWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var paused atomic.Bool
		paused.Store(true)
		h := ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			if m.Sequence == 2 && paused.Load() {
				return ackfloor.Pause(20*time.Second, errWork)
			}
			return nil
		})
		r, w, letters, mended := replayRig(t, 1, h)
		s := r.s.(*testutil.S)
		mended.Store(true)
		puts(t, s, 1, "pause")
		time.Sleep(time.Second)
		r.replay(letters...)
		time.Sleep(3 * time.Second)
		s.Stop()
		time.Sleep(5 * time.Second)
		s.Start()
		paused.Store(false)
		time.Sleep(time.Minute)
		if child := w.replays.Load().Status().Counts; r.calls.Count(1) != 2 || child.LeasesLost != 1 || child.Acked != 1 || child.Skipped != 0 {
			t.Errorf("%d calls, replays counted %+v", r.calls.Count(1), child)
		}
		w.ok(w.end())
	})
}

// Several consumers of one stream, on one connection, give up and replay each on its own.
func TestReplaysOfSeveralConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 60)
		nc := r.s.Conn(t)
		var mended atomic.Bool
		h := ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			time.Sleep(5 * time.Millisecond)
			if m.Sequence%3 == 0 && !mended.Load() {
				return errWork
			}
			return nil
		})
		var rs []*Runner
		for _, name := range []string{"A", "B", "C"} {
			cfg := r.cfg
			withLetters(&cfg)
			cfg.Consumer = name
			x, err := New(nc, cfg, h)
			must(t, err)
			rs = append(rs, x)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- RunAll(ctx, rs...) }()
		letters := r.awaitLetters(60, 60*time.Second)
		mended.Store(true)
		r.replay(letters...)
		time.Sleep(30 * time.Second)
		for _, x := range rs {
			if c, replays := x.Status().Counts, x.replays.Load().Status().Counts; c.Acked != 40 || c.DeadLettered != 20 || replays.Acked != 20 {
				t.Errorf("counted %+v, replays %+v", c, replays)
			}
		}
		cancel()
		began := time.Now()
		if err := <-done; err != nil || time.Since(began) > 3*time.Second {
			t.Errorf("RunAll returned %v after %v", err, time.Since(began))
		}
	})
}
