package worker

import (
	"math"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
)

// The longest duration that there is means no limit, not one that is over: it is added to the present.
func TestDurationsWithoutAnEnd(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"handle timeout": func(c *Config) { c.HandleTimeout = math.MaxInt64 },
		"ack wait":       func(c *Config) { c.AckWait = math.MaxInt64 },
		"drain timeout":  func(c *Config) { c.DrainTimeout = math.MaxInt64 },
		"start-up":       func(c *Config) { c.StartupTimeout = math.MaxInt64 },
		"pull expiry":    func(c *Config) { c.PullExpiry, c.DrainTimeout = math.MaxInt64, 2*time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testutil.Server(t), 8)
			w := r.start(testutil.Sleep(400*time.Millisecond), withLetters, change)
			r.floor(8, 10*time.Second)
			r.onceEach(8)
			w.ok(w.end())
			if c := w.Status().Counts; c.Acked != 8 || c.LeasesLost > 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// A drain without an end waits for a server that is away.
func TestDrainWithoutAnEnd(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	r := newRig(t, s, 4)
	w := r.startOn(connectLikeWorker(t, s), testutil.Sleep(500*time.Millisecond), func(c *Config) { c.DrainTimeout, c.AckWait = math.MaxInt64, time.Minute })
	r.calls.WaitStarted(t, 4, 3*time.Second)
	s.Stop()
	w.stop()
	time.Sleep(confirmWait + 2*time.Second)
	s.Start()
	w.ok(w.wait(20 * time.Second))
}

// A batch waits for ever for more, until the worker stops.
func TestLingerWithoutAnEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, testutil.Server(t), 5)
	w := r.start(batchRig{&batchLog{}}, func(c *Config) { c.BatchSize, c.BatchLinger, c.Concurrency = 10, math.MaxInt64, 1 })
	time.Sleep(2 * time.Second)
	if n := w.Status().Counts.Acked; n > 0 {
		t.Errorf("%d are handled, of a batch that is not full", n)
	}
	w.ok(w.end())
	if n := w.Status().Counts.Acked; n != 5 {
		t.Errorf("%d are handled in the end", n)
	}
}
