package worker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

// Stop returns only when the handlers have, and everything held is settled.
func TestStopWaitsForHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 100)
		w := r.start(testutil.Sleep(500 * time.Millisecond))
		r.calls.WaitStarted(t, 4, time.Second)
		time.Sleep(100 * time.Millisecond)
		var twice sync.WaitGroup
		for range 2 { // stopped twice, from two goroutines
			twice.Go(w.stop)
		}
		twice.Wait()
		stopped := time.Now()
		w.ok(w.wait(10 * time.Second))
		held := len(r.calls.Calls())
		if held < 4 || held > 8 {
			t.Errorf("%d messages were held", held)
		}
		for _, c := range r.calls.Calls() {
			if c.End.IsZero() || c.Err != nil {
				t.Errorf("sequence %d ended at %v with %v", c.Sequence, c.End, c.Err)
			}
			if held == 4 && c.Start.After(stopped) {
				t.Errorf("sequence %d was begun %v after the stop", c.Sequence, c.Start.Sub(stopped))
			}
		}
		r.floor(uint64(held), time.Second)
		if n := w.Status().Counts.Returned; n != 0 {
			t.Errorf("%d messages were handed back though the grace had not ended", n)
		}
	})
}

// A handler's context lives through the grace and then ends with a cause of its own; what it returns is still settled.
func TestContextLivesThroughGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1)
		var cause error
		var cancelled time.Time
		w := r.start(ackfloor.HandlerFunc(func(ctx context.Context, _ *ackfloor.Message) error {
			select {
			case <-ctx.Done():
				cause, cancelled = context.Cause(ctx), time.Now()
				time.Sleep(20 * time.Millisecond)
				return nil
			case <-time.After(5 * time.Second):
				return nil
			}
		}), func(c *Config) { c.DrainTimeout = 100 * time.Millisecond })
		r.calls.WaitStarted(t, 1, time.Second)
		stopped := time.Now()
		w.ok(w.end())
		if d := cancelled.Sub(stopped); d < 100*time.Millisecond || d > 110*time.Millisecond {
			t.Errorf("the context ended %v after the stop", d)
		}
		if !errors.Is(cause, ackfloor.ErrStopping) || errors.Is(cause, ackfloor.ErrHandleTimeout) {
			t.Errorf("the cause is %v", cause)
		}
		r.floor(1, time.Second)
		r.onceEach(1)
	})
}

// What a deploy interrupts comes back at once and is no failure.
func TestInterruptedIsNotFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1)
		short := func(c *Config) { c.MaxAttempts, c.DrainTimeout = 2, 50*time.Millisecond }
		for range 2 {
			n := len(r.calls.Calls())
			w := r.start(testutil.Block(nil), short)
			r.calls.WaitStarted(t, n+1, time.Second)
			err := w.end()
			var broken *DrainError
			if !errors.As(err, &broken) || broken.Interrupted != 1 {
				t.Fatalf("Run returned %v", err)
			}
			if c := w.Status().Counts; c.Retried+c.Terminated != 0 || c.Returned != 1 {
				t.Fatalf("counted as a failure: %+v", c)
			}
		}
		w := r.start(testutil.Succeed(), short)
		began := time.Now()
		r.floor(1, time.Second)
		if d := time.Since(began); d > 500*time.Millisecond {
			t.Errorf("it came back after %v", d)
		}
		w.ok(w.end())
		if n := r.logged("failed") + r.logged("given up"); n != 0 {
			t.Errorf("%d failures were logged", n)
		}
	})
}

// A handler that ignores its context does not hold up the stop; its message is handed back and no longer stamped.
func TestStubbornHandlerIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1)
		w := r.start(testutil.Stubborn(20*time.Second), func(c *Config) { c.DrainTimeout = 300 * time.Millisecond })
		r.calls.WaitStarted(t, 1, time.Second)
		err := w.end()
		if w.took > 500*time.Millisecond {
			t.Errorf("it took %v to stop", w.took)
		}
		var broken *DrainError
		if !errors.As(err, &broken) || len(broken.Abandoned) != 1 || broken.Abandoned[0].Sequence != 1 || broken.Abandoned[0].Subject != "events.0" || broken.ExitCode() != 75 {
			t.Fatalf("Run returned %v", err)
		}
		if r.logged("a handler ignores") != 1 {
			t.Error("no line names the handler that was left behind")
		}
		other := r.start(testutil.Succeed())
		r.floor(1, time.Second) // long before ack_wait: it was handed back
		other.ok(other.end())
		time.Sleep(20 * time.Second) // for the handler to end inside the bubble
	})
}

// A message that waits for its retry does not hold up the stop.
func TestRetryDoesNotHoldUpTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1)
		w := r.start(testutil.Fail(1, errors.New("not now")), func(c *Config) { c.RetrySchedule = "1h" })
		r.calls.Wait(t, 1, time.Second)
		time.Sleep(10 * time.Millisecond)
		w.ok(w.end())
		if w.took > 1200*time.Millisecond {
			t.Errorf("it took %v to stop", w.took)
		}
	})
}

// The last acks are confirmed before Run returns.
func TestLastAcksAreConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 200)
		for i := range 200 {
			gate := make(chan struct{})
			w := r.start(testutil.Block(gate), func(c *Config) {
				c.Concurrency, c.Prefetch, c.MaxAckPending, c.PullExpiry = 1, 0, 1, 100*time.Millisecond
			})
			r.calls.WaitStarted(t, i+1, 5*time.Second)
			go close(gate)
			w.ok(w.end())
			w.nc.Close()
		}
		info := r.floor(200, time.Second)
		if info.NumRedelivered != 0 || r.calls.MaxConcurrent() != 1 {
			t.Errorf("redelivered %d, at once %d", info.NumRedelivered, r.calls.MaxConcurrent())
		}
		r.onceEach(200)
	})
}

// What waits when the grace ends goes back in ascending order, and the next worker has it at once.
func TestWaitingGoesBackInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 20)
		w := r.start(testutil.Block(nil), func(c *Config) {
			c.Concurrency, c.Prefetch, c.DrainTimeout, c.MaxAckPending = 2, 18, 50*time.Millisecond, 0
		})
		r.calls.WaitStarted(t, 2, time.Second)
		for w.Status().Waiting < 18 {
			time.Sleep(time.Millisecond)
		}
		var broken *DrainError
		if err := w.end(); !errors.As(err, &broken) || w.Status().Counts.Returned != 20 {
			t.Fatalf("Run returned %v, %d handed back", err, w.Status().Counts.Returned)
		}
		var again testutil.Recorder
		next := r.start(again.Wrap(testutil.Succeed()), func(c *Config) { c.Concurrency = 1 })
		r.floor(20, 2*time.Second)
		next.ok(next.end())
		seqs := again.Sequences()
		for i := 1; i < 18; i++ { // the two that ran may come first or last
			if seqs[i] < seqs[i-1] && seqs[i] > 2 {
				t.Fatalf("they came back in the order %v", seqs)
			}
		}
	})
}
