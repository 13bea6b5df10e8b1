package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ackfloor/ackfloor"
)

// attempt is the context of one call of a handler. It costs nothing until the handler uses it: the real context, with its
// timer, is made on the first call of Done or Value (a context made for each message took a fifth of the throughput of a handler that
// does nothing). Its deadline is kept by the lease loop as well, for handlers that never look.
type attempt struct {
	r     *Runner
	limit time.Duration // when the handle timeout passes, by the Runner's clock

	mu    sync.Mutex
	real  *realContext // nil until it is needed
	cause error        // why it ended, nil while it has not
	over  bool         // the handler has returned
}

type realContext struct {
	context.Context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc // frees the timer
}

func (a *attempt) begin(r *Runner, limit time.Duration) { a.r, a.limit = r, limit }

var errReturned = errors.New("worker: the handler has returned")

// Deadline is when the handle timeout passes.
func (a *attempt) Deadline() (time.Time, bool) { return a.r.clock.base.Add(a.limit), true }

func (a *attempt) Done() <-chan struct{} { return a.context().Done() }

func (a *attempt) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.real != nil {
		return a.real.Err()
	}
	return errOf(a.cause)
}

// Value finds a value of the Runner's context. An unknown key may be the one by which package context finds its own kind, so that
// children and context.Cause work; it is asked of the real context.
func (a *attempt) Value(key any) any {
	if v := a.r.values.Value(key); v != nil {
		return v
	}
	return a.context().Value(key)
}

// context makes the real context on first use.
func (a *attempt) context() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.real == nil {
		deadline, _ := a.Deadline()
		ctx, cancel := context.WithCancelCause(a.r.values)
		timed, stop := context.WithDeadlineCause(ctx, deadline, ackfloor.ErrHandleTimeout)
		a.real = &realContext{timed, cancel, stop}
		if a.cause != nil {
			a.endLocked()
		}
	}
	return a.real
}

// end ends the context with a cause. The first cause stays.
func (a *attempt) end(cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cause != nil || a.over {
		return
	}
	a.cause = cause
	if a.real != nil {
		a.endLocked()
	}
}

func (a *attempt) endLocked() {
	if errors.Is(a.cause, ackfloor.ErrHandleTimeout) && a.r.clock.now() >= a.limit {
		return // its own timer ends it, with the right Err
	}
	a.real.cancel(a.cause)
}

// returned is called when the handler has returned: it frees the timer and tells why the context had ended by then, or nil.
func (a *attempt) returned(now time.Duration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if a.real != nil {
		if a.cause == nil && a.real.Err() != nil {
			a.cause = context.Cause(a.real)
		}
		a.real.cancel(errReturned)
		a.real.stop()
	} else if a.cause == nil && now >= a.limit {
		a.cause = ackfloor.ErrHandleTimeout
	}
	return a.cause
}

func errOf(cause error) error {
	switch {
	case cause == nil:
		return nil
	case errors.Is(cause, ackfloor.ErrHandleTimeout):
		return context.DeadlineExceeded
	}
	return context.Canceled
}
