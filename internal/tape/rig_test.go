package tape

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

// Times are printed as local ones.
func init() { time.Local = time.UTC }

func leaksNothing(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// three makes the picture: a stream of eight messages, and three services at three positions. Of the six that billing was given the fourth and the sixth are outstanding.
func three(t *testing.T, s *testutil.S) {
	t.Helper()
	s.Events(t, 8)
	for _, c := range []struct {
		name  string
		fetch int
		leave []uint64
	}{{"audit", 8, nil}, {"billing", 6, []uint64{4, 6}}, {"email", 2, nil}} {
		settle(t, s.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: c.name, AckWait: time.Hour}), c.fetch, c.leave...)
	}
}

// settle fetches n messages and acknowledges them, but for those of the sequences to leave. In a cluster a pull may meet no consumer yet: it is made on one
// server, and another hears of it a moment later.
func settle(t *testing.T, c jetstream.Consumer, n int, leave ...uint64) {
	t.Helper()
	got := 0
	for end := time.Now().Add(10 * time.Second); got < n; {
		batch, err := c.Fetch(n-got, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			got++
			meta, err := m.Metadata()
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(leave, meta.Sequence.Stream) {
				continue
			}
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got < n && time.Now().After(end) {
			t.Fatalf("%d messages came, not %d: %v", got, n, batch.Error())
		}
	}
}

// read is a Read that must go well.
func read(t *testing.T, r *Reader) *Tape {
	t.Helper()
	tape, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tape
}

// names are those of the cursors, in their order.
func names(t *Tape) []string {
	out := []string{}
	for _, c := range t.Cursors {
		out = append(out, c.Consumer)
	}
	return out
}

// of is the cursor of a consumer.
func of(t *testing.T, tape *Tape, consumer string) Cursor {
	t.Helper()
	for _, c := range tape.Cursors {
		if c.Consumer == consumer {
			return c
		}
	}
	t.Fatalf("%s is not on the tape, which has %v", consumer, names(tape))
	return Cursor{}
}

// marks are those of all sequences, as one letter each.
func marks(tape *Tape, c Cursor) string {
	var out strings.Builder
	for sequence := tape.First; sequence <= tape.Last; sequence++ {
		if tape.Gone(sequence) {
			out.WriteString("-")
			continue
		}
		out.WriteString(string(c.Mark(sequence)[0]))
	}
	return out.String()
}
