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

func permanent() ackfloor.Handler { return testutil.Fail(-1, ackfloor.Permanent(errWork)) }

// A letter that is told to wait while its record is being written is written, too, where letters can be meanwhile: it waits for nobody.
func TestNoLetterIsKeptForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		r.lettersAtMost(1)
		w := r.start(permanent(), withLetters)
		kv := w.flaky()
		puts(t, s, 1, "first")
		time.Sleep(5 * time.Second)
		kv.putDelay.Store(int64(300 * time.Millisecond))
		r.lettersAtMost(-1)
		for range 30 {
			put(t, s, "events.x", "more", nil)
			time.Sleep(200 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if st := w.Status(); st.Kept > 0 || !st.Ready || st.Counts.DeadLettered != 31 {
			t.Errorf("kept %d, ready %v (%s), counted %+v", st.Kept, st.Ready, st.Reason, st.Counts)
		}
		r.floor(31, time.Second)
		w.ok(w.end())
	})
}

// While letters can't be written one is tried at a time, however many wait, and the log says so once a minute.
func TestOneLetterIsTriedAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		r.lettersAtMost(1)
		w := r.start(permanent(), withLetters, func(c *Config) { c.MaxAckPending = 1000 })
		w.working()
		puts(t, s, 1, "bad")
		time.Sleep(time.Second)
		puts(t, s, 100, "bad")
		time.Sleep(30 * time.Second)
		if st := w.Status(); st.Kept != 101 || st.Counts.DeadLetterFailures > 20 {
			t.Errorf("kept %d, %d tries in 30 s", st.Kept, st.Counts.DeadLetterFailures)
		}
		time.Sleep(5 * time.Minute)
		if n := r.logged("a dead letter could not be written"); n < 4 || n > 7 {
			t.Errorf("said %d times in five minutes and a half", n)
		}
		r.lettersAtMost(-1)
		r.floor(101, 10*time.Second)
		w.ok(w.end())
	})
}

// No more than a quarter of max_ack_pending is kept for letters that can't be written, nor more bytes than two pulls bring; the rest goes back
// for half a minute at a time, and the others are handled.
func TestKeptMessagesAreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		body   string
		change func(*Config)
		most   int
	}{
		"messages": {"bad", func(c *Config) { c.MaxAckPending = 16 }, 4},
		"bytes":    {"bad" + strings.Repeat("x", 400<<10), func(c *Config) { c.PullBytes = 1 << 20 }, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 0)
				r.lettersAtMost(1)
				w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
					if strings.HasPrefix(string(m.Data), "bad") {
						return ackfloor.Permanent(errWork)
					}
					return nil
				}), withLetters, tt.change)
				w.working()
				puts(t, s, 10, tt.body)
				puts(t, s, 50, "good")
				time.Sleep(25 * time.Second)
				st := w.Status()
				if st.Kept != tt.most || st.Counts.Acked != 50 || st.Counts.Returned > 10 {
					t.Errorf("kept %d, want %d; counted %+v", st.Kept, tt.most, st.Counts)
				}
				time.Sleep(60 * time.Second)
				if n := w.Status().Counts.Redelivered; n == 0 || n > 40 {
					t.Errorf("%d redeliveries in a minute and a half", n)
				}
				r.lettersAtMost(-1)
				r.floor(60, 2*time.Minute)
				w.ok(w.end())
				if n := len(r.own()); n != 10 {
					t.Errorf("%d letters", n)
				}
			})
		})
	}
}

// What is kept for a slow bucket is bounded by the bytes of two pulls as well: large messages do not fill the memory.
func TestKeptMessagesCountAgainstPullBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		w := r.start(testutil.Fail(-1, errWork), withLetters, func(c *Config) { c.RetrySchedule, c.PullBytes, c.MaxAckPending = "1h", 1<<20, 1000 })
		kv := w.flaky()
		kv.putDelay.Store(int64(200 * time.Millisecond))
		puts(t, s, 100, strings.Repeat("x", 200<<10))
		most := 0
		for range 600 {
			time.Sleep(10 * time.Millisecond)
			st := w.Status()
			most = max(most, st.Kept+st.Running+st.Waiting)
		}
		if most > 24 || w.Status().Parked != 100 {
			t.Errorf("2 MiB are 10 messages, and %d were held; %d are done", most, w.Status().Parked)
		}
		w.ok(w.end())
	})
}

// While the connection is away a letter is not tried for long: the try fails at once, and the next comes when it is its turn.
func TestLettersAreNotTriedWithoutAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			time.Sleep(time.Second)
			return ackfloor.Permanent(errWork)
		}), withLetters, func(c *Config) { c.Records, c.AckWait = off, 10*time.Second })
		w.replaying()
		puts(t, s, 1, "bad")
		r.calls.WaitStarted(t, 1, 5*time.Second)
		s.Stop()
		time.Sleep(1500 * time.Millisecond)
		if n := w.Status().Counts.DeadLetterFailures; n == 0 {
			t.Error("half a second behind the handler's end no try has failed")
		}
		s.Start()
		r.floor(1, 20*time.Second)
		w.ok(w.end())
		if n := len(r.letters()); n != 1 || r.calls.Count(1) != 1 {
			t.Errorf("%d letters, %d calls", n, r.calls.Count(1))
		}
	})
}

// A message whose lease is lost while its letter can't be written is handled once, and counted once.
func TestLetterOfALostLeaseIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		r.lettersAtMost(1)
		w := r.start(permanent(), withLetters)
		w.working()
		puts(t, s, 1, "bad")
		time.Sleep(5 * time.Second)
		for range 3 {
			s.Stop()
			time.Sleep(5 * time.Second)
			s.Start()
			time.Sleep(5 * time.Second)
		}
		r.lettersAtMost(-1)
		r.floor(1, 20*time.Second)
		time.Sleep(10 * time.Second)
		w.ok(w.end())
		if c := w.Status().Counts; c.DeadLettered != 1 || c.LeasesLost == 0 || r.calls.Count(1) != 1 || len(r.own()) != 1 {
			t.Errorf("%d calls, %d letters, counted %+v", r.calls.Count(1), len(r.own()), c)
		}
	})
}

// A failure whose lease is lost while its record is being written is late: it is another's to count, and nothing is sent.
func TestRecordOfALostLeaseIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		w := r.start(testutil.Fail(1, errWork), withLetters)
		kv := w.flaky()
		kv.putDelay.Store(int64(6 * time.Second))
		puts(t, s, 1, "bad")
		r.calls.WaitStarted(t, 1, 5*time.Second)
		s.Stop()
		time.Sleep(5 * time.Second)
		s.Start()
		kv.putDelay.Store(0)
		r.floor(1, 20*time.Second)
		w.ok(w.end())
		if c := w.Status().Counts; c.Late != 1 || c.Retried != 0 || c.Acked != 1 {
			t.Errorf("counted %+v", c)
		}
	})
}

// A stop waits for what is being written down, and hands back, at once, what can't be.
func TestStopWritesDown(t *testing.T) {
	for _, full := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := testutil.Bubble(t)
			r := newRig(t, s, 0)
			if full {
				r.lettersAtMost(1)
			}
			w := r.start(permanent(), withLetters)
			kv := w.flaky()
			kv.putDelay.Store(int64(500 * time.Millisecond))
			puts(t, s, 8, "bad")
			r.calls.WaitDistinct(t, 8, 5*time.Second)
			w.ok(w.end())
			c := w.Status().Counts
			if pending := s.Info(t, rigStream, rigConsumer).NumAckPending; full && (c.Returned != 8 || c.DeadLettered > 0) || !full && (c.DeadLettered != 8 || pending > 0) || w.took > 4*time.Second {
				t.Errorf("full %v: it took %v, %d ack pending, counted %+v", full, w.took, pending, c)
			}
			if held := w.holds(); held != "" {
				t.Errorf("full %v: it holds %s", full, held)
			}
		})
	}
}

// A stop without a server, with letters that can't be written, ends a few seconds behind its grace, and earlier where the server comes back.
func TestStopWithLettersAndWithoutServer(t *testing.T) {
	for _, back := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := testutil.Bubble(t)
			r := newRig(t, s, 0)
			r.lettersAtMost(1)
			w := r.start(permanent(), withLetters, func(c *Config) { c.DrainTimeout = 3 * time.Second })
			w.working()
			puts(t, s, 60, "bad")
			time.Sleep(10 * time.Second)
			s.Stop()
			w.stop()
			if back {
				time.Sleep(2 * time.Second)
				s.Start()
			}
			w.ok(w.wait(time.Minute))
			if w.took > 8*time.Second || back && w.took > time.Second {
				t.Errorf("back %v: it took %v", back, w.took)
			}
			if !back {
				s.Start()
			}
		})
	}
}

// A process that dies between the letter and the settlement leaves one letter, and the handler is not called again.
func TestCrashBetweenLetterAndSettlement(t *testing.T) {
	for _, mode := range []string{AckConfirm, AckSend} {
		synctest.Test(t, func(t *testing.T) {
			s := testutil.Bubble(t)
			r := newRig(t, s, 0)
			ack := func(c *Config) { c.Ack = mode }
			w := r.start(permanent(), withLetters, ack)
			kv := w.flaky()
			kv.putDelay.Store(int64(500 * time.Millisecond))
			puts(t, s, 1, "bad")
			r.calls.Wait(t, 1, 5*time.Second)
			time.Sleep(100 * time.Millisecond)
			w.buf.mu.Lock()
			for d := range w.buf.held.all() {
				d.reply = "nowhere" // the settlement does not arrive
			}
			w.buf.mu.Unlock()
			letters := r.awaitLetters(1, 5*time.Second)
			w.crash()
			w = r.start(testutil.Succeed(), withLetters, ack)
			r.floor(1, 10*time.Second)
			w.ok(w.end())
			if after := r.letters(); len(after) != 1 || after[0].Sequence != letters[0].Sequence || r.calls.Count(1) != 1 {
				t.Errorf("ack %s: %d letters, %d calls", mode, len(after), r.calls.Count(1))
			}
		})
	}
}
