package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// heldBytes looks every millisecond until n messages are settled, and returns the most bytes of payload that were held at once, and in how many messages.
func (w *running) heldBytes(n uint64) (most, messages int) {
	for w.Status().Counts.Acked < n {
		time.Sleep(time.Millisecond)
		bytes := 0
		w.buf.mu.Lock()
		for d := range w.buf.held.all() {
			bytes += len(d.msg.Data)
		}
		if bytes > most {
			most, messages = bytes, w.buf.held.len()
		}
		w.buf.mu.Unlock()
	}
	return most, messages
}

// However sizes jump, no more bytes are held than three pulls may bring, and one message: where all get large, and where few are, but take long.
func TestBytesHeld(t *testing.T) {
	const small, large, pull = 100, 500_000, 1 << 20
	for _, tc := range []struct {
		name    string
		n       int
		isLarge func(i int) bool
		slow    func(size int) time.Duration
	}{
		{"from small to large", 240, func(i int) bool { return i >= 200 }, func(int) time.Duration { return 2 * time.Second }},
		{"one in twenty, which take long", 1000, func(i int) bool { return i%20 == 19 }, func(size int) time.Duration { return time.Duration(size/large) * 5 * time.Second }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, testutil.Bubble(t), 0)
				js, err := jetstream.New(r.s.Conn(t))
				must(t, err)
				for i := range tc.n {
					size := small
					if tc.isLarge(i) {
						size = large
					}
					_, err := js.Publish(context.Background(), "events.x", make([]byte, size))
					must(t, err)
				}
				h := ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
					return testutil.Sleep(tc.slow(len(m.Data))).Handle(ctx, m)
				})
				w := r.start(h, func(c *Config) {
					c.PullBytes, c.Concurrency, c.MaxAckPending, c.AckWait = pull, 64, 1000, 30*time.Second
				})
				most, messages := w.heldBytes(uint64(tc.n))
				t.Logf("at the most %.2f MiB in %d messages", float64(most)/(1<<20), messages)
				if most > 3*pull+large {
					t.Errorf("%.2f MiB in %d messages were held, of %.2f", float64(most)/(1<<20), messages, float64(3*pull+large)/(1<<20))
				}
				w.ok(w.end())
			})
		})
	}
}
