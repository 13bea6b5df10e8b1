package model

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// settle takes what was published to the reply subject of a delivery: an ack, a nak, a term, word of progress, or an ack that asks for the next message.
func (c *consumer) settle(subject, reply string, body []byte) {
	seq, delivery, ok := sequences(subject)
	if !ok {
		return // the server answers nothing it can't read
	}
	answer := true
	switch {
	case len(body) == 0, string(body) == "+ACK", string(body) == "+OK", bytes.HasPrefix(body, []byte("+TERM")):
		answer = c.ack(seq)
	case bytes.HasPrefix(body, []byte("+NXT")):
		c.ack(seq)
		c.pull(reply, body[len("+NXT"):])
		answer = false
	case bytes.HasPrefix(body, []byte("-NAK")):
		c.nak(seq, delivery, bytes.TrimSpace(body[len("-NAK"):]))
	case string(body) == "+WPI":
		if h := c.pending[seq]; h != nil {
			h.since = time.Now()
			h.stored = h.since
		}
	}
	if answer && reply != "" {
		c.out(out{to: reply})
	}
}

// ack settles a message for good. It returns false where there is no answer: the message was never delivered.
func (c *consumer) ack(seq uint64) bool {
	if seq >= c.next {
		return false
	}
	stalled := c.cfg.MaxAckPending > 0 && len(c.pending) >= c.cfg.MaxAckPending
	h := c.pending[seq]
	if h != nil {
		delete(c.pending, seq)
		c.moveFloor(seq, h.first)
	}
	delete(c.again, seq)
	c.unqueue(seq)
	if h != nil && stalled {
		c.gather()
	}
	return true
}

// moveFloor moves the ack floor behind a message that was settled: up to the last delivery where nothing is pending, or to the one before the next message
// that is, where the message was the next in the order of deliveries.
func (c *consumer) moveFloor(seq, first uint64) {
	if len(c.pending) == 0 {
		c.floor = jetstream.SequenceInfo{Consumer: c.deliveries - 1, Stream: c.next - 1}
		return
	}
	if first != c.floor.Consumer+1 {
		return
	}
	c.floor = jetstream.SequenceInfo{Consumer: first, Stream: seq}
	for s := seq + 1; s < c.next; s++ {
		if h := c.pending[s]; h != nil {
			c.floor = jetstream.SequenceInfo{Consumer: h.first - 1, Stream: s - 1}
			return
		}
	}
}

// nak queues a message again, at once or after a delay. A delay is kept as an ack_wait that ends with it, and stored.
func (c *consumer) nak(seq, delivery uint64, arg []byte) {
	if delivery <= c.floor.Consumer || delivery > c.deliveries {
		return
	}
	h := c.pending[seq]
	if h == nil {
		return
	}
	if delay, ok := nakDelay(arg); ok {
		now := time.Now()
		c.unqueue(seq)
		h.since = now.Add(delay - c.ackWait())
		h.stored = h.since
		if !c.check.IsZero() {
			c.check = now.Add(10 * time.Millisecond)
		}
		return
	}
	if !slices.Contains(c.queue, seq) {
		c.queue = append(c.queue, seq)
	}
	c.gather()
}

// nakDelay reads what follows -NAK: {"delay": nanoseconds}, or a duration.
func nakDelay(arg []byte) (d time.Duration, ok bool) {
	if len(arg) == 0 {
		return 0, false
	}
	if arg[0] == '{' {
		var o struct {
			Delay time.Duration `json:"delay"`
		}
		err := json.Unmarshal(arg, &o)
		return o.Delay, err == nil
	}
	d, err := time.ParseDuration(string(arg))
	return d, err == nil
}

func (c *consumer) unqueue(seq uint64) {
	c.queue = slices.DeleteFunc(c.queue, func(s uint64) bool { return s == seq })
}

// sequences reads the stream's and the consumer's sequence out of the reply subject of a delivery.
func sequences(subject string) (seq, delivery uint64, ok bool) {
	t := strings.Split(subject, ".")
	if len(t) != 9 {
		return 0, 0, false
	}
	seq, err := strconv.ParseUint(t[5], 10, 64)
	delivery, err2 := strconv.ParseUint(t[6], 10, 64)
	return seq, delivery, err == nil && err2 == nil && seq > 0
}
