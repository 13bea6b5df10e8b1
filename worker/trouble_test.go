package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
)

// A network that hangs for longer than ack_wait while messages wait for a slot: they are given up, and the Runner goes on.
func TestWaitingMessagesLoseTheirLease(t *testing.T) {
	s := testutil.Server(t)
	proxy := s.Proxy(t)
	r := newRig(t, s, 20)
	nc, err := Connect(t.Context(), Connection{URL: proxy.URL()})
	must(t, err)
	w := r.startOn(nc, testutil.Sleep(300*time.Millisecond), func(c *Config) { c.AckWait, c.Concurrency, c.Prefetch = time.Second, 1, 10 })
	r.calls.WaitStarted(t, 1, 2*time.Second)
	time.Sleep(100 * time.Millisecond)
	proxy.Hold()
	time.Sleep(2500 * time.Millisecond)
	proxy.Release()
	r.floor(20, 20*time.Second)
	if st := w.Status(); !st.Alive || st.Counts.LeasesLost < 5 {
		t.Errorf("alive %v (%s), leases lost %d", st.Alive, st.Reason, st.Counts.LeasesLost)
	}
	w.ok(w.end())
}

// Two workers come back after an outage, one earlier than the other, and the later the longer it was: what the late one has settled meanwhile
// is not handled by the early one.
func TestEarlyWorkerDoesNotTakeWhatALateOneHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 2000)
		time.Sleep(3 * time.Second) // the backlog is older than ack_wait
		var workers []*running
		for range 2 {
			claims.Clear() // the other one stands for a worker in another process
			w := r.startOn(connectLikeWorker(t, s), testutil.Sleep(80*time.Millisecond), func(c *Config) { c.Concurrency = 4 })
			w.working()
			workers = append(workers, w)
		}
		for i, outage := range []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second, 20 * time.Second, time.Minute} {
			r.calls.Wait(t, 300*i+100, time.Minute)
			s.Stop()
			time.Sleep(outage)
			s.Start()
		}
		r.floor(2000, time.Minute)
		r.onceEach(2000)
		for _, w := range workers {
			w.ok(w.end())
		}
	})
}

// Handlers end while the server is away, then the worker is told to stop: it takes nothing more when the server is back.
func TestStopWhileTheServerIsAway(t *testing.T) {
	s := testutil.Server(t)
	r := newRig(t, s, 200)
	nc, err := Connect(t.Context(), Connection{URL: s.URL()})
	must(t, err)
	w := r.startOn(nc, testutil.Sleep(300*time.Millisecond), func(c *Config) { c.AckWait = 30 * time.Second })
	r.calls.WaitStarted(t, 8, 3*time.Second)
	time.Sleep(50 * time.Millisecond)
	s.Stop()
	time.Sleep(400 * time.Millisecond)
	w.stop()
	time.Sleep(100 * time.Millisecond)
	s.Start()
	w.ok(w.wait(10 * time.Second))
	time.Sleep(300 * time.Millisecond)
	if i := s.Info(t, rigStream, rigConsumer); i.NumAckPending > 0 || w.Status().Counts.Returned > 0 {
		t.Errorf("ack pending %d, handed back %d", i.NumAckPending, w.Status().Counts.Returned)
	}
}

// Nothing is held and the server can't be reached: there is nothing to wait for.
func TestStopIdleWithoutTheServer(t *testing.T) {
	s := testutil.Server(t)
	p := s.Proxy(t)
	r := newRig(t, s, 4)
	nc, err := Connect(t.Context(), Connection{URL: p.URL()})
	must(t, err)
	w := r.startOn(nc, testutil.Succeed())
	r.floor(4, 3*time.Second)
	for deadline := time.Now().Add(time.Second); w.Status().Counts.Unconfirmed > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond) // the server has applied the acks, its answers are on their way
	}
	p.Down()
	time.Sleep(100 * time.Millisecond)
	w.ok(w.end())
	if w.took > 2*time.Second {
		t.Errorf("it took %v", w.took)
	}
}

// max_ack_pending far below what may wait: it is the limit, not a reason to ask for nothing.
func TestPrefetchAboveMaxAckPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 200)
		w := r.start(testutil.Succeed(), func(c *Config) { c.Prefetch, c.MaxAckPending = 1000, 100 })
		r.floor(200, 5*time.Second)
		w.ok(w.end())
	})
}

// max_ack_pending and ack_wait are changed under a running worker: it follows.
func TestConsumerIsChangedWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 2000)
		w := r.start(testutil.Succeed(), func(c *Config) { c.MaxAckPending, c.Concurrency, c.AckWait = 5000, 16, 30*time.Second })
		r.floor(2000, 10*time.Second)
		cons := w.bound.info.Config
		cons.MaxAckPending, cons.AckWait = 20, 2*time.Second
		s.Consumer(t, rigStream, cons)
		time.Sleep(lookAnyway + 3*time.Second)
		if w.leaseTime() != 2*time.Second {
			t.Errorf("it keeps leases of %v", w.leaseTime())
		}
		s.Events(t, 300)
		r.floor(2300, 10*time.Second)
		r.onceEach(2300)
		w.ok(w.end())
	})
}

// A pull that stays open for long, with a message now and then: that it is served shows that it lives.
func TestLongPullWithFewMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		w := r.start(testutil.Sleep(3*time.Second), func(c *Config) { c.PullExpiry, c.Prefetch = 60*time.Second, 100 })
		w.working()
		for range 30 {
			s.Events(t, 1)
			time.Sleep(time.Second)
		}
		if lost := w.Status().Counts.PullErrors["lost"]; lost > 0 {
			t.Errorf("%d pulls counted as lost", lost)
		}
	})
}

// Somebody resets the consumer: messages are handled anew, and acks that the server does not answer any more do not hold up a stop.
func TestResetConsumer(t *testing.T) {
	s := testutil.Server(t)
	r := newRig(t, s, 100)
	// An ack that crosses the reset may never be answered: the server has the message delivered, not pending, and acknowledged (nats-server 2.15, seen). So a stop
	// may last until 3 s behind the grace.
	w := r.start(testutil.Sleep(50*time.Millisecond), func(c *Config) { c.DrainTimeout = time.Second })
	r.calls.Wait(t, 40, 20*time.Second)
	again := r.calls.Count(1)
	reset, err := s.Conn(t).RequestWithContext(t.Context(), "$JS.API.CONSUMER.RESET.EVENTS.D", []byte(`{"seq":1}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.80s", reset.Data)
	r.calls.Wait(t, 60, 5*time.Second)
	if r.calls.Count(1) != again+1 {
		t.Errorf("message 1 was handled %d times before the reset and %d in all", again, r.calls.Count(1))
	}
	_ = w.end()
	if w.took > 5*time.Second {
		t.Errorf("the stop took %v: %+v", w.took, w.Status().Counts)
	}
}

// Messages of a usual size fill a pull's bytes: that is no message that is too large.
func TestFullPullIsNotATooLargeMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		nc := s.Conn(t)
		for range 300 {
			_, err := nc.RequestWithContext(t.Context(), "events.x", make([]byte, 1000))
			must(t, err)
		}
		w := r.start(testutil.Succeed(), func(c *Config) { c.PullBytes, c.Concurrency = 8192, 16 })
		r.floor(300, 5*time.Second)
		if n := w.Status().Counts.PullErrors["too_large"]; n > 0 {
			t.Errorf("%d times", n)
		}
		w.ok(w.end())
	})
}
