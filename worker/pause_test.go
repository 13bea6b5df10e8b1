package worker

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

// While what a handler needs is out, the worker pulls nothing and keeps what it holds under lease; it tries one message at a time, charges no
// attempts, and goes on when that one is handled.
func TestPause(t *testing.T) {
	for _, unready := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := testutil.Bubble(t)
			r := newRig(t, s, 100)
			var down atomic.Bool
			var during atomic.Int32
			w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
				time.Sleep(10 * time.Millisecond)
				if down.Load() {
					during.Add(1)
					return ackfloor.Pause(3*time.Second, errWork)
				}
				return nil
			}), withLetters, func(c *Config) { c.MaxAttempts, c.PauseUnready = 2, unready })
			r.calls.WaitDistinct(t, 20, 5*time.Second)
			down.Store(true)
			time.Sleep(30 * time.Second)
			st := w.Status()
			if !strings.Contains(st.Paused, errWork.Error()) || st.Ready == unready || st.Waiting == 0 || st.Running != 0 {
				t.Errorf("paused %q, ready %v (%s), %d wait, %d run", st.Paused, st.Ready, st.Reason, st.Waiting, st.Running)
			}
			if n := during.Load(); n < 8 || n > 14 { // four at first, then one every 3 s
				t.Errorf("%d handlers were called in 30 s of outage", n)
			}
			held := s.Info(t, rigStream, rigConsumer)
			if held.NumAckPending != st.Waiting || held.NumRedelivered != 0 {
				t.Errorf("%d ack pending with %d held, %d redelivered", held.NumAckPending, st.Waiting, held.NumRedelivered)
			}
			down.Store(false)
			r.floor(100, 10*time.Second)
			st = w.Status()
			if c := st.Counts; c.Retried+c.Terminated+c.DeadLettered+c.LeasesLost+c.Redelivered != 0 || c.Acked != 100 || st.Paused != "" || !st.Ready {
				t.Errorf("afterwards paused %q, ready %v, counted %+v", st.Paused, st.Ready, c)
			}
			if r.logged("paused:") != 1 || r.logged("resumed:") != 1 {
				t.Errorf("%d lines of a pause, %d of its end", r.logged("paused:"), r.logged("resumed:"))
			}
			for _, c := range r.calls.Calls() {
				if c.Attempt != 1 {
					t.Fatalf("attempt %d of %d", c.Attempt, c.Sequence)
				}
			}
			w.ok(w.end())
		})
	}
}

// A stop in a pause ends at once and hands back what waits.
func TestStopInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 100)
		w := r.start(testutil.Fail(-1, ackfloor.Pause(time.Hour, errWork)), withLetters)
		r.calls.WaitStarted(t, 1, 5*time.Second)
		time.Sleep(10 * time.Second)
		w.ok(w.end())
		if w.took > 1500*time.Millisecond || w.Status().Counts.Returned == 0 {
			t.Errorf("it took %v; counted %+v", w.took, w.Status().Counts)
		}
		w = r.start(testutil.Succeed(), withLetters)
		r.floor(100, 5*time.Second)
		w.ok(w.end())
	})
}

// Whatever the tried message ends with, other than a pause, ends the pause.
func TestFailureEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 3)
		var calls atomic.Int32
		w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			switch calls.Add(1) {
			case 1:
				return ackfloor.Pause(time.Second, errWork)
			case 2:
				return ackfloor.Permanent(errWork)
			}
			return nil
		}), func(c *Config) { c.Concurrency = 1 })
		r.floor(3, 10*time.Second)
		w.ok(w.end())
		if c := w.Status().Counts; c.Pauses != 1 || c.Terminated != 1 || c.Acked != 2 {
			t.Errorf("counted %+v", c)
		}
	})
}

// A message that asks for a pause for ever stops the others only until another is tried.
func TestOneMessageThatAlwaysPauses(t *testing.T) {
	for n := range 2 { // alone with others in the buffer, and alone with others in the stream
		synctest.Test(t, func(t *testing.T) {
			s := testutil.Bubble(t)
			r := newRig(t, s, 50*n)
			if n == 0 {
				put(t, s, "events.x", "0", nil)
			}
			w := r.start(testutil.ByData(map[string]ackfloor.Handler{"0": testutil.Fail(-1, ackfloor.Pause(10*time.Second, errWork))}, testutil.Succeed()),
				func(c *Config) { c.Concurrency = 1 })
			r.calls.WaitStarted(t, 1, 5*time.Second)
			if n == 0 {
				time.Sleep(time.Second)
				for range 20 {
					put(t, s, "events.x", "good", nil)
				}
			}
			time.Sleep(5 * time.Minute)
			if c := w.Status().Counts; c.Acked < 8 || c.Retried > 0 {
				t.Errorf("after five minutes: %+v", c)
			}
			w.ok(w.end())
		})
	}
}
