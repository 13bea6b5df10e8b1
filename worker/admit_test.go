package worker

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
)

// The death of a process in which a suspect ran alone is an attempt; its record says up to which delivery that is known.
func TestDeathsAreAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 0)
		r.suspects(1, "poison")
		three := func(c *Config) { c.MaxAttempts = 3 }
		if _, died := r.dies("poison", withLetters, three); !died {
			t.Fatal("it did not run")
		}
		w := r.make(r.s.Conn(t), testutil.Fail(-1, errWork), withLetters, three)
		w.hook = func(point string) {
			if point == "books" { // bound, and nothing handled yet
				rec, err := w.records.get(context.Background(), 1)
				if err != nil || rec.Deaths != 1 || rec.Failures != 0 || rec.Known != 3 {
					t.Errorf("the record says %+v, %v", rec, err)
				}
			}
		}
		w.run()
		l := r.awaitLetters(1, 20*time.Second)[0]
		w.ok(w.end())
		calls := r.calls.Calls()
		if len(calls) != 3 || calls[1].Attempt != 2 || calls[2].Attempt != 3 || l.Attempts != 3 || l.Reason != deadletter.ReasonExhausted || !strings.Contains(l.Error, errWork.Error()) {
			t.Errorf("calls %v, the letter says %+v", calls, l)
		}
	})
}

// Where deaths use up the attempts it is convicted of them before three, and counted as suspected.
func TestAttemptsUsedUpByDeaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 0)
		r.suspects(1, "poison")
		two := func(c *Config) { c.MaxAttempts = 2 }
		for range 2 {
			if _, died := r.dies("poison", withLetters, two); !died {
				t.Fatal("it did not run")
			}
		}
		w := r.start(testutil.Succeed(), withLetters, two)
		l := r.awaitLetters(1, 20*time.Second)[0]
		r.floor(1, 5*time.Second)
		w.ok(w.end())
		if c := w.Status().Counts; l.Reason != deadletter.ReasonCrash || l.Attempts != 2 || c.Suspected != 1 || c.DeadLettered != 1 || c.Acked != 0 {
			t.Errorf("counted %+v, the letter says %+v", c, l)
		}
	})
}

// While a record can't be told no attempt is the last, and the handler is told no more than is known; when it can the count goes on.
func TestNoAttemptIsTheLastWhileRecordsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		w := r.start(testutil.ByData(map[string]ackfloor.Handler{"bad": testutil.Fail(-1, errWork)}, testutil.Fail(1, errWork)), withLetters,
			func(c *Config) { c.MaxAttempts, c.RetrySchedule = 2, "3s" })
		kv := w.flaky()
		puts(t, s, 1, "bad")
		time.Sleep(time.Second)
		kv.failPuts.Store(4)
		puts(t, s, 1, "breaks the bucket")
		time.Sleep(10 * time.Second)
		for _, c := range r.calls.Calls() {
			if c.Attempt != 1 {
				t.Errorf("attempt %d of 2 while records can't be written: %v", c.Attempt, c)
			}
		}
		if n := r.calls.Count(1); n < 3 || len(r.letters()) > 0 {
			t.Errorf("%d calls and %d letters while records can't be written", n, len(r.letters()))
		}
		l := r.awaitLetters(1, 5*time.Minute)[0]
		r.floor(2, time.Minute)
		w.ok(w.end())
		if l.Reason != deadletter.ReasonExhausted || r.calls.Count(1) > 12 {
			t.Errorf("%d calls, the letter says %+v", r.calls.Count(1), l)
		}
	})
}

// One read of the bucket that fails forgets no attempt.
func TestAttemptsOutliveAFailedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		var kv *flakyKV
		w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			if r.calls.Count(1) == 3 {
				kv.failGets.Store(1)
			}
			return errWork
		}), withLetters, func(c *Config) { c.RetrySchedule = "2s" })
		kv = w.flaky()
		puts(t, s, 1, "bad")
		l := r.awaitLetters(1, time.Minute)[0]
		w.ok(w.end())
		if n := r.calls.Count(1); n != 5 || l.Attempts != 5 {
			t.Errorf("%d calls, %d attempts in the letter", n, l.Attempts)
		}
	})
}

// A pause keeps what is known of a message: its attempts go on counting behind it, and the pause is none.
func TestPauseKeepsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1)
		w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			if n := r.calls.Count(1); n == 4 || n == 5 {
				return ackfloor.Pause(time.Second, errWork)
			}
			return errWork
		}), withLetters)
		l := r.awaitLetters(1, time.Minute)[0]
		w.ok(w.end())
		var attempts []int
		for _, c := range r.calls.Calls() {
			attempts = append(attempts, c.Attempt)
		}
		if len(attempts) != 7 || attempts[3] != 4 || attempts[5] != 4 || attempts[6] != 5 || l.Attempts != 5 {
			t.Errorf("attempts %v, in the letter %d", attempts, l.Attempts)
		}
	})
}

// Without records nothing tells a lost delivery from a returned one, so that nobody runs alone.
func TestNobodyIsSuspectedWithoutRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 0)
		r.suspects(8, "lost twice")
		w := r.start(testutil.Sleep(100*time.Millisecond), withLetters, func(c *Config) { c.Records = off })
		r.floor(8, 10*time.Second)
		w.ok(w.end())
		if n := r.calls.MaxConcurrent(); n < 3 || r.logged("a suspect") > 0 {
			t.Errorf("%d ran at once, %d were suspected", n, r.logged("a suspect"))
		}
	})
}

// A suspect whose mark can't be written, since the bucket failed while it waited for its turn, runs unmarked: its death would be no evidence.
func TestSuspectThatCannotBeMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		s.Consumer(t, rigStream, wanted(r.cfg))
		puts(t, s, 1, "suspect")
		must(t, r.fetch(rigStream, rigConsumer, 1)[0].Nak())
		held := r.fetch(rigStream, rigConsumer, 1)[0]
		var kv *flakyKV
		w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			switch {
			case string(m.Data) == "fails" && r.calls.Count(m.Sequence) == 1:
				time.Sleep(time.Second)
				kv.failPuts.Store(1) // the record of this failure; none is tried for a while behind it
				return errWork
			case string(m.Data) == "long":
				time.Sleep(2 * time.Second) // for its end the suspect waits
			}
			return nil
		}), withLetters)
		kv = w.flaky()
		puts(t, s, 1, "fails")
		puts(t, s, 1, "long")
		time.Sleep(500 * time.Millisecond)
		must(t, held.Nak())
		r.floor(3, 20*time.Second)
		w.ok(w.end())
		if r.logged("a suspect") > 0 || r.logged("a record could not be written") != 1 {
			t.Errorf("%d suspects were marked, %d records could not be written", r.logged("a suspect"), r.logged("a record could not be written"))
		}
		r.alone(1)
	})
}

// The attempts in a letter are the handler's calls, however often it could not be written, or its message was handed back with it.
func TestAttemptsOfALetterThatWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 3)
		r.lettersAtMost(1)
		h := testutil.ByData(map[string]ackfloor.Handler{"1": testutil.Fail(-1, ackfloor.Permanent(errWork))}, testutil.Succeed())
		for range 5 {
			w := r.start(h, withLetters)
			time.Sleep(5 * time.Second)
			w.ok(w.end())
		}
		r.lettersAtMost(-1)
		w := r.start(h, withLetters)
		r.awaitLetters(2, 10*time.Second)
		r.floor(3, 5*time.Second)
		w.ok(w.end())
		l := r.own()[0]
		if n := r.calls.Count(2); n != 1 || l.Attempts != 1 || !l.LastFailed.Equal(l.FirstFailed) || l.Reason != deadletter.ReasonPermanent {
			t.Errorf("%d calls, the letter says %+v", n, l)
		}
	})
}

// A consumer that was made anew to handle everything again takes no verdict of the one before.
func TestConsumerMadeAnewBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		w := r.start(testutil.Fail(-1, ackfloor.Permanent(errWork)), withLetters)
		r.awaitLetters(1, 10*time.Second)
		r.floor(1, 5*time.Second)
		w.ok(w.end())
		must(t, s.JetStream(t).DeleteConsumer(context.Background(), rigStream, rigConsumer))
		w = r.start(testutil.Sleep(time.Minute), withLetters, func(c *Config) { c.DrainTimeout = 100 * time.Millisecond })
		time.Sleep(3 * time.Second)
		_ = w.end()
		w = r.start(testutil.Succeed(), withLetters)
		r.floor(1, 20*time.Second)
		w.ok(w.end())
		if c := w.Status().Counts; c.Acked != 1 || c.DeadLettered != 0 {
			t.Errorf("counted %+v", c)
		}
	})
}

// A stream that was made anew with the same sequences has nothing to do with the records and letters of the old one.
func TestStreamMadeAnewBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 2)
		w := r.start(testutil.Fail(-1, errWork), withLetters)
		r.awaitLetters(2, 20*time.Second)
		w.ok(w.end())
		must(t, s.JetStream(t).DeleteStream(context.Background(), rigStream))
		time.Sleep(time.Second)
		s.Events(t, 2)
		n := len(r.calls.Calls())
		w = r.start(testutil.Fail(-1, errWork), withLetters)
		letters := r.awaitLetters(4, 20*time.Second)
		r.floor(2, 5*time.Second)
		w.ok(w.end())
		if got := len(r.calls.Calls()) - n; got != 10 || len(letters) != 4 {
			t.Errorf("%d calls, %d letters", got, len(letters))
		}
		for _, l := range letters {
			if l.Attempts != 5 || l.Deliveries != 1 {
				t.Errorf("the letter says %+v", l)
			}
		}
	})
}

// Restarts of workers, crashes and restarts of the server between failures change nothing in how many attempts there are.
func TestAttemptsAmongRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		for i := range 20 {
			w := r.start(testutil.Fail(-1, ackfloor.RetryAfter(5*time.Second, errWork)), withLetters)
			time.Sleep(time.Duration(1+i%4) * time.Second)
			switch i % 3 {
			case 0:
				w.crash()
			case 1:
				s.Restart()
				_ = w.end()
			case 2:
				w.ok(w.end())
			}
		}
		if n, letters := r.calls.Count(1), r.letters(); n != 5 || len(letters) != 1 || letters[0].Attempts != 5 {
			t.Errorf("%d calls, letters %v", n, letters)
		}
	})
}

// What the server delivers again while it is held counts as deliveries, in the letter and for what is known of the message.
func TestDeliveriesWhileHeldAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		var calls atomic.Int32
		w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			calls.Add(1)
			time.Sleep(3 * time.Second)
			return ackfloor.Permanent(errWork)
		}), withLetters)
		r.calls.WaitStarted(t, 1, 5*time.Second)
		for range 2 {
			r.passBack(w, 1)
			time.Sleep(500 * time.Millisecond)
		}
		l := r.awaitLetters(1, 10*time.Second)[0]
		w.ok(w.end())
		if calls.Load() != 1 || l.Deliveries != 3 || l.Attempts != 1 {
			t.Errorf("%d calls, the letter says %+v", calls.Load(), l)
		}
	})
}

// passBack naks a message that a worker holds, without its knowledge, so that the server delivers it again.
func (r *rig) passBack(w *running, seq uint64) {
	r.t.Helper()
	reply := ""
	w.buf.mu.Lock()
	if d := w.buf.held.get(seq); d != nil {
		reply = d.reply
	}
	w.buf.mu.Unlock()
	if reply == "" {
		r.t.Fatalf("message %d is not held", seq)
	}
	nc := r.s.Conn(r.t)
	must(r.t, nc.PublishMsg(&nats.Msg{Subject: reply, Data: []byte("-NAK")}))
	must(r.t, nc.Flush())
}
