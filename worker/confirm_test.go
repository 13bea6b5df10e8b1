package worker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
)

// The last handler ends while the server is away: the stop waits for it, and what was done is confirmed.
func TestStopWaitsForTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 4)
		release := make(chan struct{})
		w := r.startOn(connectLikeWorker(t, s), testutil.Block(release))
		r.calls.WaitStarted(t, 4, time.Second)
		s.Stop()
		w.stop()
		time.Sleep(100 * time.Millisecond)
		close(release)
		time.Sleep(time.Second)
		select {
		case <-w.done:
			t.Fatalf("Run has returned %v with 4 settlements unconfirmed", w.err)
		default:
		}
		s.Start()
		w.ok(w.wait(2 * time.Second))
		info := r.floor(4, time.Second)
		if info.Delivered.Consumer != 4 || w.Status().Counts.Unconfirmed != 0 {
			t.Errorf("delivered %d, unconfirmed %d", info.Delivered.Consumer, w.Status().Counts.Unconfirmed)
		}
	})
}

// The server does not come back: the stop ends all the same, and says that it was not a clean one.
func TestStopWithoutTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 4)
		release := make(chan struct{})
		w := r.startOn(connectLikeWorker(t, s), testutil.Block(release))
		r.calls.WaitStarted(t, 4, time.Second)
		s.Stop()
		close(release)
		err := w.end()
		var broken *DrainError
		if !errors.As(err, &broken) || broken.Unconfirmed != 4 || broken.ExitCode() != 75 {
			t.Errorf("Run returned %v", err)
		}
		if w.took > 10*time.Second+confirmWait+time.Second {
			t.Errorf("it took %v", w.took)
		}
	})
}

// Plain acks: a clean stop leaves nothing pending all the same.
func TestPlainAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 300)
		w := r.start(testutil.Fail(1, errors.New("not now")), func(c *Config) { c.Ack = AckSend })
		r.floor(300, 10*time.Second)
		if c := w.Status().Counts; c.Acked != 300 || c.Retried != 300 || c.Resends != 0 || c.Unconfirmed != 0 {
			t.Errorf("%+v", c)
		}
		w.ok(w.end())
	})
}
