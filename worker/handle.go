package worker

import (
	"runtime/debug"

	"github.com/ackfloor/ackfloor"
)

// slot is one of the goroutines that handle: it takes, handles and settles one message after another until nothing more comes.
func (r *Runner) slot() {
	defer r.slots.Done()
	for {
		d := r.buf.take(r.clock)
		if d == nil {
			return
		}
		r.handle(d)
	}
}

// handle calls the handler for one message and settles it, whatever the call does: return, panic, or end its goroutine.
func (r *Runner) handle(d *delivery) {
	d.attempt.values = r.values
	d.attempt.deadline = r.clock.base.Add(d.started + r.cfg.HandleTimeout)
	r.leases.by(d.started + r.cfg.HandleTimeout)
	err := error(&ackfloor.PanicError{Goexit: true}) // unless the call returns
	returned := false
	defer func() {
		if !returned {
			if p := recover(); p != nil {
				err = &ackfloor.PanicError{Value: p, Stack: debug.Stack()}
			} else { // runtime.Goexit: this goroutine ends behind its deferred calls, so another takes its place
				r.slots.Add(1)
				go r.slot()
			}
			r.counters.panics.Add(1)
		}
		r.settle(d, err, r.clock.now()-d.started)
	}()
	err = r.handler.Handle(&d.attempt, &d.msg)
	returned = true
}
