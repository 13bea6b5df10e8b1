package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Settlement is something that a worker said to the server about a delivery.
type Settlement struct {
	At               time.Time // when the Tap heard it
	Kind             string    // ack, nak, term, progress or next
	Sequence         uint64    // of the message in the stream
	ConsumerSequence uint64    // of the delivery
	Deliveries       uint64    // how often the message had been delivered, this time included
	Published        time.Time // when the stream stored the message
	Delay            time.Duration
	Reason           string // of a term
	Confirm          bool   // an answer was asked for
}

// Tap listens to what workers say about the deliveries of one consumer. It hears nothing while its connection is away, and the end of nothing that was
// lost on the way to the server.
type Tap struct {
	subs []*nats.Subscription

	mu   sync.Mutex
	said []Settlement
	odd  int // subjects that could not be read
}

// OpenTap starts to listen, until Close is called or the connection is closed. It returns when the server listens for it. The connection's user
// must be allowed to subscribe to $JS.ACK.<stream>.<consumer>.> and $JS.ACK.*.*.<stream>.<consumer>.>, the two forms of a delivery's reply
// subject.
func OpenTap(ctx context.Context, nc *nats.Conn, stream, consumer string) (*Tap, error) {
	t := &Tap{}
	for _, subject := range []string{"$JS.ACK." + stream + "." + consumer + ".>", "$JS.ACK.*.*." + stream + "." + consumer + ".>"} {
		sub, err := nc.Subscribe(subject, t.hear)
		if err != nil {
			return nil, fmt.Errorf("fault: listening to %s: %w", subject, err)
		}
		if err := sub.SetPendingLimits(-1, -1); err != nil {
			return nil, fmt.Errorf("fault: listening to %s: %w", subject, err)
		}
		t.subs = append(t.subs, sub)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		return nil, fmt.Errorf("fault: listening to settlements: %w", err)
	}
	return t, nil
}

// Close ends the listening.
func (t *Tap) Close() {
	for _, sub := range t.subs {
		_ = sub.Unsubscribe()
	}
}

// Settlements returns what was heard so far, in the order in which it came.
func (t *Tap) Settlements() []Settlement {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.said)
}

func (t *Tap) hear(m *nats.Msg) {
	s, ok := readSettlement(m.Subject, string(m.Data))
	s.At, s.Confirm = time.Now(), m.Reply != ""
	t.mu.Lock()
	defer t.mu.Unlock()
	if !ok {
		t.odd++
		return
	}
	t.said = append(t.said, s)
}

// Odd tells how many messages on the subjects were no settlement that could be read.
func (t *Tap) Odd() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.odd
}

// readSettlement reads a reply subject and what was said on it. The subject has 9 tokens, the last five of them numbers: deliveries, sequence in the
// stream, sequence of the delivery, time, pending; or 11 and more, with two names more before the stream, and more after the numbers.
func readSettlement(subject, body string) (Settlement, bool) {
	tokens := strings.Split(subject, ".")
	at := 4
	if len(tokens) >= 11 {
		at = 6
	} else if len(tokens) != 9 {
		return Settlement{}, false
	}
	var numbers [5]uint64
	for i := range numbers {
		n, err := strconv.ParseUint(tokens[at+i], 10, 64)
		if err != nil {
			return Settlement{}, false
		}
		numbers[i] = n
	}
	s := Settlement{Deliveries: numbers[0], Sequence: numbers[1], ConsumerSequence: numbers[2], Published: time.Unix(0, int64(numbers[3]))}
	word, rest, _ := strings.Cut(body, " ")
	switch word {
	case "", "+ACK":
		s.Kind = "ack"
	case "-NAK":
		s.Kind = "nak"
		var wish struct{ Delay time.Duration }
		if json.Unmarshal([]byte(rest), &wish) == nil {
			s.Delay = wish.Delay
		}
	case "+TERM":
		s.Kind, s.Reason = "term", rest
	case "+WPI":
		s.Kind = "progress"
	case "+NXT":
		s.Kind = "next"
	default:
		return Settlement{}, false
	}
	return s, true
}
