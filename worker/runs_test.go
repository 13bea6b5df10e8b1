package worker

import (
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
)

// Acks go out in runs here: handlers do nothing, the server has no cluster. Whatever happens to the connection or the server in the middle of
// a burst, what was counted as confirmed is: nothing comes again that was settled.
func TestRunsAreConfirmedWhateverHappens(t *testing.T) {
	const n = 30000
	for name, disturb := range map[string]func(s *testutil.S, p *testutil.Proxy){
		"server restarted": func(s *testutil.S, _ *testutil.Proxy) { s.Restart() },
		"connection cut":   func(_ *testutil.S, p *testutil.Proxy) { p.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			s := testutil.Server(t)
			proxy := s.Proxy(t)
			r := newRig(t, s, n)
			nc, err := Connect(t.Context(), Connection{URL: proxy.URL()})
			must(t, err)
			w := r.startOn(nc, testutil.Succeed(), func(c *Config) { c.MaxAckPending = 1000 })
			for range 5 {
				before := w.Status().Counts.Acked
				for deadline := time.Now().Add(3 * time.Second); w.Status().Counts.Acked < before+500 && time.Now().Before(deadline); {
					time.Sleep(100 * time.Microsecond)
				}
				disturb(s, proxy)
			}
			r.floor(n, 30*time.Second)
			c := w.Status().Counts
			if c.Skipped != 0 || c.Acked != n {
				t.Errorf("acked %d, delivered again after they were settled %d", c.Acked, c.Skipped)
			}
			r.onceEach(n)
			w.ok(w.end())
			if w.conf.stats.confirmed < n || w.conf.runs.made == 0 {
				t.Errorf("confirmed %d, runs %d", w.conf.stats.confirmed, w.conf.runs.made)
			}
		})
	}
}

// The rules of a run, one by one.
func TestRunRules(t *testing.T) {
	s := testutil.Server(t)
	c := newConfirmer(s.Conn(t), clock{time.Now()}, nats.NewInbox())
	join := func(now time.Duration) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.joinLocked(sent{"$JS.ACK.x", 1}, now)
	}
	if join(0); join(1) {
		t.Error("a run began though runs are not allowed")
	}
	c.runs.allowed = true
	if join(2); join(3) {
		t.Error("a run began before an ack was answered on this connection")
	}
	c.runs.trusted = c.epoch() - 1
	if join(4) {
		t.Error("a run began on the word of another connection")
	}
	c.runs.trusted = c.epoch()
	if join(5 + runGap) {
		t.Error("a run began though the last ack was long ago")
	}
	for i := range runMax - 1 {
		if !join(6 + runGap + time.Duration(i)) {
			t.Fatalf("ack %d did not join", i)
		}
	}
	if join(7 + runGap + runMax) {
		t.Error("a run has no end")
	}
}
