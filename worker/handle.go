package worker

import (
	"runtime/debug"
	"time"

	"github.com/ackfloor/ackfloor"
)

// startSlot starts a slot.
func (r *Runner) startSlot() {
	r.slots.Add(1)
	if r.batch != nil {
		go r.batchSlot()
	} else {
		go r.slot()
	}
}

// slot is one of the goroutines that handle: it takes, handles and settles one message after another until nothing more comes.
func (r *Runner) slot() {
	defer r.slots.Done()
	now := r.clock.now()
	for {
		d := r.buf.take(r.clock, now)
		if d == nil {
			return
		}
		if d.past != nil && (!r.admit(d) || r.tooLate(d)) {
			now = r.clock.now()
			continue
		}
		now = r.handle(d)
	}
}

// handle calls the handler for one message and settles it, whatever the call does: return, panic, or end its goroutine. It returns
// when that was.
func (r *Runner) handle(d *delivery) (now time.Duration) {
	r.leases.by(d.attempt.limit)
	var err error
	returned, inline := false, d.inline
	defer func() {
		if !returned {
			why := r.noReturn(recover())
			defer r.replace(d, why)
			err = why
		}
		now = r.clock.now()
		r.settle(d, err, now)
		if inline {
			r.slots.Done() // behind the settlement: who waits for the handlers waits for their settlements next
		}
	}()
	if r.source == nil {
		err = r.handler.Handle(&d.attempt, &d.msg)
	} else {
		err = r.callReplay(d)
	}
	returned = true
	return now
}

// noReturn makes the error of a handler that did not return: it panicked, or called runtime.Goexit.
func (r *Runner) noReturn(panicked any) *ackfloor.PanicError {
	r.counters.panics.Add(1)
	if panicked != nil {
		return &ackfloor.PanicError{Value: panicked, Stack: debug.Stack()}
	}
	return &ackfloor.PanicError{Goexit: true}
}

// replace puts another goroutine in the place of one that runtime.Goexit ends: it ends behind its deferred calls, whatever they do.
func (r *Runner) replace(d *delivery, why *ackfloor.PanicError) {
	switch {
	case !why.Goexit:
	case !d.inline:
		r.startSlot()
	case !d.passed:
		go r.read()
	}
}
