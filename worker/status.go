package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// State is what a Runner is doing. It only ever moves down the list.
type State int32

// The states of a Runner.
const (
	StateNew      State = iota // Run was not called yet
	StateBinding               // waits for the server, the stream, the consumer
	StateWorking               // pulls and handles
	StateDraining              // pulls no more; finishes what it holds
	StateEnded                 // Run has returned, or is about to
)

var stateNames = [...]string{"new", "binding", "working", "draining", "ended"}

func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("state %d", int(s))
	}
	return stateNames[s]
}

// to moves to a later state; false if that or a later one is reached already.
func (r *Runner) to(next State) bool {
	for {
		now := r.state.Load()
		if now >= int32(next) {
			return false
		}
		if r.state.CompareAndSwap(now, int32(next)) {
			return true
		}
	}
}

// Cursor is where the consumer stands, as `nats consumer info` shows it.
type Cursor struct {
	Delivered   uint64    // stream sequence of the last message delivered for the first time
	AckFloor    uint64    // stream sequence up to which everything is settled
	AckPending  int       // delivered, not settled
	Redelivered int       // of those, delivered more than once
	Pending     uint64    // not delivered yet
	Seen        time.Time // when the server said so, by this machine's clock
}

// HeldItem is a message that a Runner holds.
type HeldItem struct {
	Subject  string
	Sequence uint64
	Attempt  int
	Running  bool          // a handler has it; else it waits for a slot, or is kept
	Kept     bool          // its handler has returned; it is settled once something is written down, as a dead letter is, or waits here for a retry
	For      time.Duration // how long it runs, or is held
}

// Counts are numbers since Run was called.
type Counts struct {
	Received           uint64 // deliveries taken in
	Redelivered        uint64 // of those and of those skipped, the ones that the server had delivered before
	Skipped            uint64 // redeliveries of messages that this Runner had settled, or another one that told so: acknowledged, not handled again
	LeftToAnother      uint64 // deliveries of messages that another worker holds, which a server that was killed does not know any more
	Acked              uint64
	Retried            uint64 // attempts that failed and are followed by another: given back with a delay, or kept here for it
	DeadLettered       uint64 // given up: permanent, or the attempts are used up; written to the dead letters, then terminated
	Terminated         uint64 // given up, and kept nowhere: there are no dead letters (DEAD_LETTER=off)
	Exhausted          uint64 // of those two, the ones whose attempts were used up
	Suspected          uint64 // of those dead-lettered, the ones that are suspected of killing their process
	DeadLetterFailures uint64 // times that a dead letter could not be written; tried again until it is
	Pauses             uint64 // answers of handlers that asked for a pause
	Returned           uint64 // handed back at a stop; no failure
	Late               uint64 // settled or dropped after their lease was lost
	LeasesLost         uint64
	Panics             uint64
	Resends            uint64 // settlements that were sent again for want of a confirmation
	Unconfirmed        uint64 // settlements that wait for their confirmation now
	Unknown            uint64 // NAKs that were never answered, and acks of deliveries that the server has forgotten; their messages come back by themselves
	Reconnects         uint64
	PullErrors         map[string]uint64 // by kind: lost, nobody, leader, too_large, max_waiting …
}

// Status is what a Runner is doing now.
type Status struct {
	State         State
	Stream        string
	Consumer      string
	Connected     bool
	Ready         bool   // bound, connected, and its pulls are answered
	Reason        string // why it is not ready; "" when it is
	Alive         bool   // its loops run, or it has ended as it should
	Waiting       int    // messages held, for which no slot is free
	Running       int    // messages held, which a handler has
	Kept          int    // messages held, whose handlers have returned: they are settled once something is written down, as a dead letter is, or wait here for a retry that is near
	Parked        int    // failed messages that wait for their retry at the server, as far as this Runner gave them back: they count against max_ack_pending
	Paused        string // why nothing is pulled and nothing started: a handler asked for a pause; "" when none did
	Standby       bool   // it works on a pinned consumer and has not been given the pin: another process works, or nothing has come yet. It is ready all the same
	MaxAckPending int    // messages that all workers of the consumer may hold together; 0: no limit, or not bound yet
	Behind        int    // of those that wait, the messages that wait for another one of their key
	Limit         int    // messages that may be held: concurrency and prefetch
	Cursor        Cursor // what the server said last: when binding, after a reconnect, when drained, and on each Look
	Counts        Counts
	Drift         []Drift // between the configuration and the consumer, when it was bound
	Created       bool    // this Runner made the consumer
}

type counters struct {
	received, redelivered, skipped, acked, retried, terminated, exhausted, returned, late, leasesLost, panics, reconnects, interrupted atomic.Uint64
	deadLettered, suspected, letterFailures, pauses, leftToAnother                                                                     atomic.Uint64
	insideReader                                                                                                                       atomic.Uint64 // handlers that the reader called itself
}

// Status tells what the Runner is doing. It is cheap, asks no server, and may be called from any goroutine at any time.
func (r *Runner) Status() Status {
	s := Status{
		State: State(r.state.Load()), Stream: r.cfg.Stream, Consumer: r.cfg.Consumer,
		Connected: r.nc.IsConnected(),
		Alive:     r.failed() == nil,
	}
	if c := r.cursor.Load(); c != nil {
		s.Cursor = *c
	}
	if s.State >= StateWorking {
		s.Drift, s.Created = r.bound.drift, r.bound.created
	}
	s.Waiting, s.Running, s.Kept = r.buf.count()
	r.pull.mu.Lock()
	s.Behind, s.MaxAckPending = r.buf.behindLocked(), r.pull.limits.capacity
	missed := r.pull.missed
	if p := r.buf.pause; p != nil {
		s.Paused = p.why
	}
	s.Limit = r.width() + r.pull.prefetch
	s.Standby = s.State == StateWorking && r.standsBy()
	s.Counts.PullErrors = make(map[string]uint64, len(r.pull.errors))
	maps.Copy(s.Counts.PullErrors, r.pull.errors)
	r.pull.mu.Unlock()
	failing := r.books.failing()
	s.Parked = r.parked.count(r.clock.now())
	r.counters.read(&s.Counts)
	r.conf.read(&s.Counts)
	switch {
	case r.failed() != nil:
		s.Reason = redact(r.failed().Error())
	case s.State != StateWorking:
		s.Reason = s.State.String()
	case !s.Connected:
		s.Reason = "not connected"
	case missed >= 2:
		s.Reason = "the server does not answer pulls"
	case failing != "":
		s.Reason = "dead letters can't be written: " + failing
	case s.Paused != "" && r.cfg.PauseUnready:
		s.Reason = "paused: " + s.Paused
	}
	s.Ready = s.Reason == ""
	return s
}

func (c *counters) read(to *Counts) {
	to.Received, to.Redelivered, to.Skipped = c.received.Load(), c.redelivered.Load(), c.skipped.Load()
	to.Acked, to.Retried, to.Terminated, to.Exhausted = c.acked.Load(), c.retried.Load(), c.terminated.Load(), c.exhausted.Load()
	to.Returned, to.Late, to.LeasesLost = c.returned.Load(), c.late.Load(), c.leasesLost.Load()
	to.DeadLettered, to.Suspected, to.DeadLetterFailures, to.Pauses = c.deadLettered.Load(), c.suspected.Load(), c.letterFailures.Load(), c.pauses.Load()
	to.Panics, to.Reconnects, to.LeftToAnother = c.panics.Load(), c.reconnects.Load(), c.leftToAnother.Load()
}

func (c *confirmer) read(to *Counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to.Resends, to.Unconfirmed, to.Unknown = c.stats.resends, uint64(c.open.Load()), c.stats.givenUp
}

// Look asks the server where the consumer stands, and keeps the answer for Status. It may be called from when Run has bound the
// consumer; the error is the context's, a *PermissionError, or the server's.
func (r *Runner) Look(ctx context.Context) (Cursor, error) {
	info, err := r.consumerInfo(ctx)
	if err == nil && info.Created.IsZero() { // a leader that is about to stop answers with zeros
		err = errors.New("the server is loading the consumer, or about to stop")
	}
	if err != nil {
		return Cursor{}, fmt.Errorf("worker: look at consumer %q: %w", r.cfg.Consumer, err)
	}
	r.sawCursor(info)
	return *r.cursor.Load(), nil
}

// Held lists what the Runner holds, in no order.
func (r *Runner) Held() []HeldItem {
	now := r.clock.now()
	r.buf.mu.Lock()
	defer r.buf.mu.Unlock()
	out := make([]HeldItem, 0, r.buf.held.len())
	for d := range r.buf.held.all() {
		out = append(out, r.item(d, now))
	}
	return out
}

func (r *Runner) item(d *delivery, now time.Duration) HeldItem {
	h := HeldItem{Subject: d.msg.Subject, Sequence: d.msg.Sequence, Attempt: d.msg.Attempt, Running: d.running, Kept: d.kept, For: now - d.received}
	if began := d.attempt.limit - r.cfg.HandleTimeout; d.running && began <= now {
		h.For = now - began
	}
	return h
}

func (r *Runner) sawCursor(i *jetstream.ConsumerInfo) {
	r.pull.pin.sawPinned(i)
	r.cursor.Store(&Cursor{Delivered: i.Delivered.Stream, AckFloor: i.AckFloor.Stream, AckPending: i.NumAckPending,
		Redelivered: i.NumRedelivered, Pending: i.NumPending, Seen: time.Now()})
}

// floor is the ack floor as of the last look, of the stream that the handler's messages are of.
func (r *Runner) floor() uint64 {
	if r.source != nil {
		return r.source.floor()
	}
	if c := r.cursor.Load(); c != nil {
		return c.AckFloor
	}
	return 0
}
