package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// A suspect runs with no other handler of the process beside it, messages and replays alike: else its death would be no evidence.
func TestSuspectRunsAlone(t *testing.T) {
	for _, replayed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := testutil.Bubble(t)
			r := newRig(t, s, 6)
			var mended atomic.Bool
			h := ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
				if !mended.Load() {
					return ackfloor.Permanent(errWork)
				}
				time.Sleep(700 * time.Millisecond)
				return nil
			})
			eight := func(c *Config) { c.Concurrency = 8 }
			w := r.start(h, withLetters, eight)
			letters := r.awaitLetters(6, 10*time.Second)
			w.replaying()
			w.ok(w.end())
			mended.Store(true)
			suspects := []uint64{7, 8}
			if replayed {
				suspects = []uint64{letters[0].MessageSequence, letters[1].MessageSequence}
				r.replay(letters[:2]...)
				r.lost(rigStream+"_DLQ", deadletter.ReplayConsumer(rigStream, rigConsumer), 2, time.Second)
				r.replay(letters[2:]...)
			} else {
				puts(t, s, 2, "suspect")
				r.lost(rigStream, rigConsumer, 2, time.Second)
				r.replay(letters...)
			}
			puts(t, s, 80, "good")
			w = r.start(h, withLetters, eight)
			time.Sleep(30 * time.Second)
			if n := r.logged("a suspect"); n != 2 {
				t.Errorf("%d suspects, want 2", n)
			}
			for _, seq := range suspects {
				r.alone(seq)
			}
			if n := r.calls.MaxConcurrent(); n < 6 {
				t.Errorf("the others ran %d at once", n)
			}
			if n := len(r.calls.Calls()); n != int(s.Info(t, rigStream, rigConsumer).Delivered.Stream)+6 || w.holds() != "" {
				t.Errorf("%d calls; it holds %s", n, w.holds())
			}
			w.ok(w.end())
		})
	}
}

// What hangs past its time, message or replay, is not waited for: a suspect beside it runs, and so does everything behind it.
func TestHungHandlersDoNotStopSuspects(t *testing.T) {
	for _, replayed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := testutil.Bubble(t)
			r := newRig(t, s, 1)
			release := make(chan struct{})
			var mended atomic.Bool
			h := ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
				switch {
				case string(m.Data) == "0" && !mended.Load():
					return ackfloor.Permanent(errWork)
				case string(m.Data) == "0", string(m.Data) == "hung":
					<-release
				}
				return nil
			})
			fast := func(c *Config) { c.HandleTimeout, c.Concurrency, c.DrainTimeout = time.Second, 8, 200*time.Millisecond }
			w := r.start(h, withLetters, fast)
			letters := r.awaitLetters(1, 10*time.Second)
			w.replaying()
			w.ok(w.end())
			mended.Store(true)
			puts(t, s, 1, "suspect")
			must(t, r.fetch(rigStream, rigConsumer, 1)[0].Nak())
			held := r.fetch(rigStream, rigConsumer, 1)[0]
			if replayed {
				r.replay(letters...)
			} else {
				puts(t, s, 1, "hung")
			}
			w = r.start(h, withLetters, fast)
			for range 10 {
				time.Sleep(time.Second)
				must(t, held.InProgress())
			}
			must(t, held.Nak()) // with its third delivery it is a suspect
			time.Sleep(time.Second)
			puts(t, s, 50, "good")
			time.Sleep(time.Minute)
			if c := w.Status().Counts; c.Acked < 51 || r.logged("a suspect") != 1 {
				t.Errorf("a minute beside a handler that hangs: %d of 51 handled, %d suspects", c.Acked, r.logged("a suspect"))
			}
			close(release)
			_ = w.end()
		})
	}
}

// Where the process does not die nobody is convicted of it: pauses and stops hand messages back, which is a word.
func TestPausesAndStopsConvictNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 20)
		for range 8 {
			w := r.start(testutil.Fail(-1, ackfloor.Pause(time.Second, errWork)), withLetters)
			time.Sleep(5 * time.Second)
			w.ok(w.end())
		}
		w := r.start(testutil.Sleep(100*time.Millisecond), withLetters)
		r.floor(20, 3*time.Second)
		w.ok(w.end())
		if len(r.letters()) > 0 || r.logged("a suspect") > 0 {
			t.Errorf("%d letters, %d suspects", len(r.letters()), r.logged("a suspect"))
		}
	})
}

// A handler that ignores its context at a stop is handed back while it runs; the process ends for another reason.
func TestHandlersThatIgnoreStopsConvictNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1)
		stuck := make(chan struct{})
		defer close(stuck)
		for range 9 {
			w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { <-stuck; return errWork }), withLetters,
				func(c *Config) { c.DrainTimeout = 500 * time.Millisecond })
			time.Sleep(3 * time.Second)
			_ = w.end()
			w.crash()
			time.Sleep(time.Minute)
		}
		if n := len(r.letters()); n > 0 || r.calls.Count(1) != 9 {
			t.Errorf("%d letters, %d calls", n, r.calls.Count(1))
		}
	})
}

// A suspect whose lease is lost while it runs has not killed its process: the mark is taken back.
func TestLostLeasesOfASuspectConvictNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		r.suspects(1, "suspect")
		w := r.start(testutil.Sleep(8*time.Second), withLetters)
		for range 5 {
			time.Sleep(5 * time.Second)
			s.Stop()
			time.Sleep(5 * time.Second)
			s.Start()
		}
		r.floor(1, 20*time.Second)
		w.ok(w.end())
		if c := w.Status().Counts; c.LeasesLost < 4 || c.Suspected+c.DeadLettered > 0 || r.logged("a suspect") < 2 {
			t.Errorf("counted %+v, %d suspects", c, r.logged("a suspect"))
		}
	})
}

// What two stops in an outage handed back is handled in all slots afterwards, since none of it is suspected.
func TestReturnedMessagesAreNoSuspects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 200)
		sixteen := func(c *Config) { c.Concurrency = 16 }
		for range 2 {
			w := r.start(testutil.Fail(-1, ackfloor.Pause(time.Minute, errWork)), withLetters, sixteen, func(c *Config) { c.Prefetch = 80 })
			time.Sleep(3 * time.Second)
			w.ok(w.end())
		}
		w := r.start(testutil.Sleep(100*time.Millisecond), withLetters, sixteen)
		began := time.Now()
		r.floor(200, 5*time.Minute)
		if took := time.Since(began); took > 5*time.Second || r.logged("a suspect") > 0 {
			t.Errorf("200 messages of 100 ms in 16 slots took %v; %d were suspected", took, r.logged("a suspect"))
		}
		w.ok(w.end())
	})
}

// A drain that interrupts a message which had been delivered before says so as with any other.
func TestInterruptedRedeliveriesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1)
		for i := range 4 {
			w := r.start(testutil.Sleep(time.Minute), withLetters, func(c *Config) { c.DrainTimeout = 100 * time.Millisecond })
			time.Sleep(3 * time.Second)
			var broken *DrainError
			if err := w.end(); !errors.As(err, &broken) || broken.Interrupted != 1 || w.Status().Counts.Returned != 1 {
				t.Errorf("stop %d: Run returned %v, counted %+v", i, err, w.Status().Counts)
			}
		}
	})
}

// A suspect that asks for a pause again and again holds up nobody, and still runs alone.
func TestSuspectThatAlwaysPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		r.suspects(1, "suspect")
		puts(t, s, 40, "good")
		var calls atomic.Int32
		w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			time.Sleep(200 * time.Millisecond)
			if string(m.Data) == "suspect" && calls.Add(1) < 6 {
				return ackfloor.Pause(time.Second, errWork)
			}
			return nil
		}), withLetters)
		time.Sleep(time.Minute)
		if c := w.Status().Counts; c.Acked != 41 || c.Pauses != 5 {
			t.Errorf("counted %+v", c)
		}
		r.alone(1)
		tries, first := 0, 0
		for i, c := range r.calls.Calls() {
			if c.Attempt != 1 {
				t.Errorf("attempt %d of %d", c.Attempt, c.Sequence)
			}
			if c.Sequence == 1 {
				if tries++; tries == 1 {
					first = i
				} else if tries == 4 && i == first+3 {
					t.Error("the suspect was tried four times, and no other meanwhile")
				}
			}
		}
		w.ok(w.end())
	})
}

// With dead letters off, too, a message that ends its process is given up after few deaths.
func TestPoisonWithoutDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1)
		for n := range 8 {
			w, died := r.dies("0", withLetters, func(c *Config) { c.DeadLetter = off })
			if died {
				continue
			}
			if c := w.Status().Counts; n > 5 || c.Terminated != 1 || c.Suspected != 1 {
				t.Errorf("after %d deaths counted %+v", n, c)
			}
			return
		}
		t.Error("eight deaths, and no end")
	})
}

// A poison that is replayed is convicted again after few deaths, in one letter, and what ran beside it is not.
func TestPoisonReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 30)
		for round := range 2 {
			deaths := 0
			for ; deaths < 8; deaths++ {
				if _, died := r.dies("6", withLetters); !died {
					break
				}
			}
			letters := r.letters()
			if l := letters[0]; deaths > 5 || len(letters) != 1 || l.MessageSequence != 7 || l.Reason != deadletter.ReasonCrash || l.Replays != round || l.Attempts != 3 {
				t.Fatalf("round %d: after %d deaths %d letters, the first says %+v", round, deaths, len(letters), l)
			}
			if round == 0 {
				r.replay(letters...)
				puts(t, s, 60, "good")
			}
		}
	})
}

// A suspect that is handled leaves no record behind.
func TestSuspectThatIsHandledIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		r.suspects(1, "suspect")
		w := r.start(testutil.Succeed(), withLetters)
		r.floor(1, 5*time.Second)
		w.ok(w.end())
		kv, err := s.JetStream(t).KeyValue(context.Background(), "ackfloor_"+rigStream)
		must(t, err)
		if e, err := kv.Get(context.Background(), rigStream+"."+rigConsumer+".1"); !errors.Is(err, jetstream.ErrKeyNotFound) || r.logged("a suspect") != 1 {
			t.Errorf("%v, %v", e, err)
		}
	})
}

// A replay beside which other messages kill the process, each one once, is innocent.
func TestReplayBesidePoisonIsInnocent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		var mended atomic.Bool
		die := make(chan struct{}, 100)
		h := ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
			switch {
			case m.Sequence == 1 && !mended.Load():
				return ackfloor.Permanent(errWork)
			case m.Sequence == 1:
				time.Sleep(10 * time.Second)
				return nil
			case r.calls.Count(m.Sequence) == 1:
				die <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		w := r.start(h, withLetters)
		letters := r.awaitLetters(1, 10*time.Second)
		w.replaying()
		w.ok(w.end())
		mended.Store(true)
		r.replay(letters...)
		for range 12 {
			w := r.start(h, withLetters)
			w.working()
			time.Sleep(4 * time.Second) // the replay runs by now
			puts(t, s, 1, "poison")
			select {
			case <-die:
				w.crash()
			case <-time.After(20 * time.Second):
				w.ok(w.end())
			}
		}
		for _, l := range r.letters() {
			if l.MessageSequence == 1 && l.Reason == deadletter.ReasonCrash {
				t.Errorf("the replay is convicted: %+v", l)
			}
		}
	})
}
