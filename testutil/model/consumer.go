package model

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// message is one stored message.
type message struct {
	seq     uint64
	subject string
	header  []byte // with its version line and the empty line at its end; empty: none
	data    []byte
	stored  time.Time // when the stream stored it
}

// held is a delivery that was not settled yet.
type held struct {
	first  uint64    // consumer sequence of the first delivery; the later ones do not change it
	since  time.Time // from when its ack_wait counts
	stored time.Time // the same, as it is stored: this counts after a restart, or a change of leader
}

// consumer is the state of a durable pull consumer with explicit acks that delivers every message of its stream. It is no more than that: whoever
// calls it holds a lock, sends what it puts out, and calls tick when the time comes that due tells. Its time is time.Now, which is virtual in a bubble.
type consumer struct {
	stream   string
	name     string
	cfg      jetstream.ConsumerConfig
	messages []message // all of the stream: sequence s is at s-1

	next       uint64 // stream sequence of the next message to be delivered for the first time
	deliveries uint64 // consumer sequence of the next delivery
	floor      jetstream.SequenceInfo
	pending    map[uint64]*held  // by stream sequence
	again      map[uint64]uint64 // how often a message was delivered again, by stream sequence
	queue      []uint64          // to be delivered again, in this order
	pulls      []*pull           // open, the one to serve next first

	check  time.Time // when the ack_waits are looked at; zero: not
	look   time.Time // when the open pulls are; zero: not
	tended time.Time // when they were last

	interest func(subject string) bool // whether somebody subscribes to it
	out      func(out)
}

// out is one message that the consumer sends.
type out struct {
	to      string // the inbox of a pull, or the reply subject of a settlement
	subject string // under which a client sees a delivery; empty for what is no delivery: it comes under the inbox
	reply   string // of a delivery: to settle it
	header  []byte
	data    []byte
	seq     uint64 // stream sequence of a delivery
	count   uint64 // which delivery of its message it is, from 1
}

func newConsumer(stream, name string, cfg jetstream.ConsumerConfig) *consumer {
	return &consumer{stream: stream, name: name, cfg: cfg, next: 1, deliveries: 1, pending: map[uint64]*held{}, again: map[uint64]uint64{}}
}

// publish stores a message and delivers it where a pull waits for it.
func (c *consumer) publish(subject string, header, data []byte) message {
	m := message{seq: uint64(len(c.messages)) + 1, subject: subject, header: header, data: data, stored: time.Now()}
	c.messages = append(c.messages, m)
	c.gather()
	return m
}

func (c *consumer) ackWait() time.Duration { return c.cfg.AckWait }

// unsent is how many messages were never delivered.
func (c *consumer) unsent() uint64 { return uint64(len(c.messages)) + 1 - c.next }

var (
	errEnd   = errors.New("the end of the stream")
	errStall = errors.New("max_ack_pending is reached")
)

// nextMessage takes the message whose turn it is: those that come again first, whatever max_ack_pending says, then the next of the stream.
func (c *consumer) nextMessage() (m message, count uint64, err error) {
	if len(c.queue) > 0 {
		seq := c.queue[0]
		c.queue = c.queue[1:]
		c.again[seq]++
		return c.messages[seq-1], c.again[seq] + 1, nil
	}
	if c.cfg.MaxAckPending > 0 && len(c.pending) >= c.cfg.MaxAckPending {
		return m, 0, errStall
	}
	if c.unsent() == 0 {
		return m, 0, errEnd
	}
	m = c.messages[c.next-1]
	c.next++
	return m, 1, nil
}

// giveBack takes nextMessage back, since no pull can take the message. One that comes again goes to the end of the queue.
func (c *consumer) giveBack(m message, count uint64) {
	switch {
	case count == 1 && m.seq == c.next-1:
		c.next--
	case !slices.Contains(c.queue, m.seq):
		if c.again[m.seq]--; c.again[m.seq] == 0 {
			delete(c.again, m.seq)
		}
		c.queue = append(c.queue, m.seq)
	}
}

// gather delivers what there is, as long as pulls wait for it, and then sees to the pulls that go on waiting.
func (c *consumer) gather() {
	var err error
	for len(c.pulls) > 0 {
		var m message
		var count uint64
		if m, count, err = c.nextMessage(); err != nil {
			break
		}
		reply := fmt.Sprintf("$JS.ACK.%s.%s.%d.%d.%d.%d.%d", c.stream, c.name, count, m.seq, c.deliveries, m.stored.UnixNano(), c.unsent())
		p := c.nextPull(len(m.subject) + len(reply) + len(m.header) + len(m.data))
		if p == nil {
			c.giveBack(m, count)
			break
		}
		if p.left > 0 && p.heartbeat > 0 {
			p.beat = time.Now().Add(p.heartbeat)
		}
		c.deliver(m, count, reply, p.inbox)
		if p.left <= 0 && p.bytes > 0 {
			c.status(p.inbox, "409 Batch Completed", p.left, p.bytes)
		}
	}
	c.look = c.tendPulls(!errors.Is(err, errStall))
	if now := time.Now(); !c.look.IsZero() && !c.look.After(now) {
		c.look = now.Add(time.Millisecond)
	}
}

// deliver sends a message. What is stored of it is the time at which it was published, not the one of the delivery (nats-server 2.15, deliverMsg).
func (c *consumer) deliver(m message, count uint64, reply, inbox string) {
	now := time.Now()
	if h := c.pending[m.seq]; h != nil {
		h.since, h.stored = now, m.stored
	} else {
		c.pending[m.seq] = &held{c.deliveries, now, m.stored}
	}
	c.deliveries++
	if at := now.Add(c.ackWait() + checkLate); c.check.IsZero() || c.check.After(at) {
		c.check = at
	}
	c.out(out{to: inbox, subject: m.subject, reply: reply, header: m.header, data: m.data, seq: m.seq, count: count})
}

// checkLate is how much later than at the first end of an ack_wait the server looks at all of them, so that a burst comes again at once.
const checkLate = time.Millisecond

// checkPending queues what has not been settled within ack_wait.
func (c *consumer) checkPending() {
	now := time.Now()
	wait := c.ackWait() + checkLate
	var expired []uint64
	for seq, h := range c.pending {
		if left := c.ackWait() - now.Sub(h.since); left > 0 {
			wait = min(wait, left)
		} else if !slices.Contains(c.queue, seq) {
			expired = append(expired, seq)
		}
	}
	if len(c.pending) == 0 {
		c.check, c.queue = time.Time{}, nil
		return
	}
	c.check = now.Add(wait)
	if len(expired) == 0 {
		return
	}
	slices.Sort(expired)
	c.queue = append(c.queue, expired...)
	ago := now.Sub(c.pending[expired[0]].since)
	for _, seq := range expired { // that they do not expire again before they are delivered; nothing of this is stored
		c.pending[seq].since = c.pending[seq].since.Add(ago)
	}
	c.gather()
}

// due tells when tick is to be called; zero: not before something else happens.
func (c *consumer) due() time.Time {
	if c.check.IsZero() || !c.look.IsZero() && c.look.Before(c.check) {
		return c.look
	}
	return c.check
}

// tick does what is due.
func (c *consumer) tick() {
	now := time.Now()
	if !c.check.IsZero() && !now.Before(c.check) {
		c.checkPending()
	}
	if !c.look.IsZero() && !now.Before(c.look) {
		c.tendPulls(true)
		c.gather()
	}
}

// restart is what a restart of the server does to the consumer, or a change of its leader: what was queued is forgotten, and ack_wait counts from
// what is stored. A server writes that down in whole seconds, a new leader has it exactly.
func (c *consumer) restart(wholeSeconds bool) {
	c.pulls, c.queue, c.check, c.look = nil, nil, time.Time{}, time.Time{}
	for _, h := range c.pending {
		if wholeSeconds {
			h.stored = time.Unix(h.stored.Unix(), 0)
		}
		h.since = h.stored
	}
}

// begin is called once the consumer listens again behind restart.
func (c *consumer) begin() {
	if len(c.pending) > 0 {
		c.checkPending()
	}
}
