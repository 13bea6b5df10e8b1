package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackfloor/ackfloor"
)

// Gate decides when a message may be handled: a limit of the rate, or of how many handlers run at once where that follows what they depend on. Package limit has
// both. It is asked by a slot that has taken a message, and meanwhile the message is under lease and its handle timeout has not begun.
type Gate interface {
	// Enter waits until m may be handled. Where leave is not nil it is called once with what the handler returned; after a panic, with an error. When ctx ends, as it
	// does when the drain's grace is over or the lease is lost, Enter returns at once, and the message is handed back. Any other error
	// is a failure of the message. Enter is called from several goroutines at once.
	Enter(ctx context.Context, m *ackfloor.Message) (leave func(err error), err error)
}

var errNotReturned = errors.New("worker: the handler did not return")

// gated is a handler behind a Gate.
type gated struct {
	next ackfloor.Handler
	gate Gate
}

// Handle implements ackfloor.Handler.
func (g gated) Handle(ctx context.Context, m *ackfloor.Message) error {
	a := ctx.(*attempt) // it is the Runner's own, and outermost
	leave, err := a.waitAt(g.gate, m)
	if err != nil {
		return err
	}
	if leave == nil {
		return g.next.Handle(ctx, m)
	}
	err = errNotReturned // a panic, until it is known that there was none
	defer func() { leave(err) }()
	err = g.next.Handle(ctx, m)
	return err
}

// waitAt waits at a gate. The attempt's time begins behind it.
func (a *attempt) waitAt(g Gate, m *ackfloor.Message) (leave func(error), err error) {
	r := a.r
	began := r.clock.now()
	a.setLimit(never)
	leave, err = g.Enter(a, m)
	now := r.clock.now()
	switch entered := a.begin(now + r.cfg.HandleTimeout); {
	case err == nil && entered:
	case entered:
		return nil, fmt.Errorf("worker: the gate: %w", err)
	default:
		if leave != nil {
			leave(errTurnedAway)
		}
		return nil, errTurnedAway
	}
	r.buf.mu.Lock()
	r.buf.gate += (now - began - r.buf.gate) / 16
	r.buf.mu.Unlock()
	return leave, nil
}

// setLimit sets when the attempt's time is over, before anybody else can know of its context.
func (a *attempt) setLimit(at time.Duration) {
	b := a.r.buf
	b.mu.Lock()
	defer b.mu.Unlock()
	a.limit = at
}

// begin gives the handler a context of its own, unless the one of the wait has ended.
func (a *attempt) begin(limit time.Duration) bool {
	b := a.r.buf
	b.mu.Lock()
	defer b.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.real != nil {
		if a.real.cause != nil {
			return false
		}
		a.real.cancel(errReturned)
		a.real.stop()
		a.real = nil
	}
	a.limit = limit
	a.r.leases.by(limit)
	return true
}
