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
	d     *delivery     // that it is of
	limit time.Duration // when the handle timeout passes, by the Runner's clock; set when a handler gets the message

	mu   sync.Mutex
	real *realContext // nil until it is needed
	over bool         // the handler has returned

	newest uint32 // of the message, not of the context: how often the server had delivered it when it came again while it was held; guarded by buffer.mu
}

type realContext struct {
	context.Context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc // frees the timer
	cause  error              // why it was ended, nil while it was not
}

var errReturned = errors.New("worker: the handler has returned")

// Deadline is when the handle timeout passes.
func (a *attempt) Deadline() (time.Time, bool) { return a.r.clock.base.Add(a.limit), a.limit != never }

func (a *attempt) Done() <-chan struct{} { return a.context().Done() }

func (a *attempt) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.real != nil {
		return a.real.Err()
	}
	if a.over {
		return context.Canceled
	}
	if a.r.clock.now() >= a.limit {
		return context.DeadlineExceeded
	}
	return nil
}

// Value finds a value of the Runner's context. An unknown key may be the one by which package context finds its own kind, so that
// children and context.Cause work; it is asked of the real context.
func (a *attempt) Value(key any) any {
	if key == (deliveryKey{}) {
		return a.d
	}
	if v := a.r.values.Value(key); v != nil {
		return v
	}
	return a.context().Value(key)
}

// context makes the real context on first use.
func (a *attempt) context() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.realLocked()
}

func (a *attempt) realLocked() *realContext {
	if a.real == nil {
		deadline, _ := a.Deadline()
		ctx, cancel := context.WithCancelCause(a.r.values)
		timed, stop := context.WithDeadlineCause(ctx, deadline, ackfloor.ErrHandleTimeout)
		a.real = &realContext{Context: timed, cancel: cancel, stop: stop}
		if a.over { // a goroutine that the handler left behind asks
			cancel(errReturned)
			stop()
		}
	}
	return a.real
}

// end ends the context with a cause. The first cause stays.
func (a *attempt) end(cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	real := a.realLocked()
	if real.cause != nil {
		return
	}
	real.cause = cause
	if errors.Is(cause, ackfloor.ErrHandleTimeout) && a.r.clock.now() >= a.limit {
		return // its own timer ends it, with the right Err
	}
	real.cancel(cause)
}

// ended tells why the context was ended, or nil.
func (a *attempt) ended() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.real == nil {
		return nil
	}
	return a.real.cause
}

// returned is called when the handler has returned: it frees the timer and tells why the context had ended by then, or nil.
func (a *attempt) returned(now time.Duration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if a.real == nil {
		if now >= a.limit {
			return ackfloor.ErrHandleTimeout
		}
		return nil
	}
	cause := a.real.cause
	if cause == nil && a.real.Err() != nil {
		cause = context.Cause(a.real)
	}
	a.real.cancel(errReturned)
	a.real.stop()
	return cause
}
