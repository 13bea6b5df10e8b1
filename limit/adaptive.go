package limit

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
)

// Adaptive is a Gate that limits how many handlers run at once, by how long they take and how many fail of overload: for what is called by many and gets slower when it is
// called too much, where no one number is right for long. Make one with NewAdaptive, for each thing that is called; several Runners may share one.
//
// # How it follows
//
// Latency, by the limiter of github.com/failsafe-go/failsafe-go: once in a Window, when Samples handlers have ended, their 90th percentile is compared with the average of
// about the last hundred. Where it is longer by so much that, of the limit, more than six seem to wait, that is lowered by one; where fewer than three do, raised by one. So it goes
// from 16 to 64 in 50 windows, not below six by latency alone, and takes what lasts for minutes for normal. It is never more than five times as many as ran,
// so that quiet hours leave none that was never tried.
//
// Errors, on top of that: where the share of calls in a Window (ten at the least) with an error of overload is AdaptiveConfig.Errors or more, the limit goes to 70 % of what ran; without
// such errors it rises again by a tenth a window, while it is used. Failures that come back at once would otherwise look like health.
//
// # What counts
//
//	nil                                a sample of latency
//	a timeout                          a sample of latency, and an error of overload
//	another error of overload,         an error of overload
//	a panic
//	an error that is none (Permanent,  nothing
//	RetryAfter: see Overload), Pause
//	an error of an interrupted         nothing
//	handler: a stop, a lost lease
//
// # Where it can't go wrong
//
// The limit is within Min and Max whatever is measured, and who waits is woken here, not by the limiter. Without samples the limit stays as it is. A limiter that panics is used no
// more: the limit is fixed from then on, and Status says why. UseFixed has the same done by hand.
type Adaptive struct {
	cfg AdaptiveConfig

	mu      sync.Mutex
	limiter adaptivelimiter.AdaptiveLimiter[any] // nil while the limit is fixed
	failure error                                // why it is, where that was not asked for
	limit   int                                  // what holds now
	running int
	waiting list.List // of chan struct{}: closed when its turn has come
	errors  errorLimit
}

// NewAdaptive makes an Adaptive. A wrong configuration is reported as a *ConfigError, with all its faults.
func NewAdaptive(c AdaptiveConfig) (*Adaptive, error) {
	c = c.withDefaults()
	if err := c.faults().err(); err != nil {
		return nil, err
	}
	a := &Adaptive{cfg: c}
	a.beginLocked()
	return a, nil
}

// AdaptiveStatus is what an Adaptive does at a moment.
type AdaptiveStatus struct {
	Limit   int   // handlers that may run at once
	Running int   // handlers that do; more than Limit for a moment after it was lowered
	Waiting int   // messages at the gate
	Fixed   bool  // the limit is AdaptiveConfig.Fixed
	Err     error // why, where nobody asked for that: the limiter has panicked
}

// Status is the state at this moment; cheap, safe from any goroutine.
func (a *Adaptive) Status() AdaptiveStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	return AdaptiveStatus{a.limit, a.running, a.waiting.Len(), a.limiter == nil, a.failure}
}

// UseFixed has the limit be AdaptiveConfig.Fixed from now on, or follow again, beginning anew with Initial and without what was learned.
func (a *Adaptive) UseFixed(fixed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failure = nil
	switch {
	case fixed:
		a.limiter = nil
		a.limit = a.cfg.Fixed
	case a.limiter == nil:
		a.beginLocked()
	}
	a.wakeLocked()
}

// beginLocked begins to follow.
func (a *Adaptive) beginLocked() {
	a.limiter = a.cfg.limiter()
	a.limit = a.cfg.Initial
	a.errors = errorLimit{ceiling: float64(a.cfg.Max), round: a.errors.round + 1}
}

// Enter implements Gate.
func (a *Adaptive) Enter(ctx context.Context, _ *ackfloor.Message) (leave func(error), err error) {
	if err := a.wait(ctx); err != nil {
		return nil, err
	}
	c := &call{began: time.Now()}
	a.mu.Lock()
	c.limiter, c.round = a.limiter, a.errors.round
	a.mu.Unlock()
	if c.limiter != nil {
		err := guarded(func() { c.permit, _ = c.limiter.TryAcquirePermit() })
		a.broken(c.limiter, err)
	}
	return func(err error) { a.leave(ctx, c, err) }, nil
}

// call is a handler that runs.
type call struct {
	began   time.Time
	limiter adaptivelimiter.AdaptiveLimiter[any]
	permit  adaptivelimiter.Permit // nil where the limiter had none left, for a moment after its limit was lowered: then the call is no sample
	round   uint64                 // of errorLimit, in which it began
}

// wait waits until one more handler may run, those first who came first.
func (a *Adaptive) wait(ctx context.Context) error {
	a.mu.Lock()
	if a.running < a.limit && a.waiting.Len() == 0 {
		a.running++
		a.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	place := a.waiting.PushBack(turn)
	a.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-turn: // both at once: it is another's
		a.running--
		a.wakeLocked()
	default:
		a.waiting.Remove(place)
	}
	return context.Cause(ctx)
}

// wakeLocked lets those in whose turn it is.
func (a *Adaptive) wakeLocked() {
	for a.running < a.limit && a.waiting.Len() > 0 {
		close(a.waiting.Remove(a.waiting.Front()).(chan struct{}))
		a.running++
	}
}

// leave takes in how a call ended, and gives its place to another, also where what it asks of the error panics.
func (a *Adaptive) leave(ctx context.Context, c *call, err error) {
	s := neutral
	defer func() { a.left(c, s) }()
	s = a.cfg.sign(ctx, err)
}

func (a *Adaptive) left(c *call, s sign) {
	if c.permit != nil {
		now := time.Now()
		err := guarded(func() {
			if (s == good || s == slow) && now.After(c.began) { // a clock that stood still would have it divide 0 by 0
				c.permit.Record()
			} else {
				c.permit.Drop()
			}
		})
		a.broken(c.limiter, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.limiter != nil {
		a.errors.count(a.cfg, s, c, a.running, a.limit)
		limit := a.cfg.Initial
		if err := guarded(func() { limit = a.limiter.Limit() }); err != nil {
			a.brokenLocked(err)
		} else {
			a.limit = max(a.cfg.Min, min(limit, int(a.errors.ceiling), a.cfg.Max))
		}
	}
	a.running--
	a.wakeLocked()
}

// guarded calls a limiter, and makes an error of its panic.
func guarded(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("limit: the limiter panicked: %v", p)
		}
	}()
	f()
	return nil
}

// broken has the limit be fixed where a limiter failed which is the present one.
func (a *Adaptive) broken(l adaptivelimiter.AdaptiveLimiter[any], err error) {
	if err == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.limiter == l {
		a.brokenLocked(err)
	}
}

func (a *Adaptive) brokenLocked(err error) {
	a.limiter, a.failure, a.limit = nil, err, a.cfg.Fixed
	a.wakeLocked()
}
