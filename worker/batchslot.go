package worker

import (
	"context"
	"time"

	"github.com/ackfloor/ackfloor"
)

// batchSlot is slot for batches.
func (r *Runner) batchSlot() {
	defer r.slots.Done()
	for {
		batch := r.takeBatch()
		if batch == nil {
			return
		}
		admitted := batch[:0]
		for _, d := range batch {
			if d.past == nil || r.admit(d) {
				admitted = append(admitted, d)
			}
		}
		if len(admitted) > 0 {
			r.handleBatch(admitted)
		}
	}
}

// handleBatch calls the handler for a batch and settles each message, whatever the call does.
func (r *Runner) handleBatch(ds []*delivery) {
	r.leases.by(ds[0].attempt.limit)
	b := &ackfloor.Batch{Messages: make([]*ackfloor.Message, len(ds))}
	for i, d := range ds {
		b.Messages[i] = &d.msg
	}
	var err error
	returned := false
	defer func() {
		if !returned {
			why := r.noReturn(recover())
			defer r.replace(ds[0], why)
			err = why
		}
		r.settleBatch(ds, b.Outcomes(err), r.clock.now())
	}()
	err = r.batch.handler.HandleBatch(&ds[0].attempt, b) // the first one's context: their times are the same, and a stop ends them all
	returned = true
}

// settleBatch settles each message of a batch.
func (r *Runner) settleBatch(ds []*delivery, outcomes []error, now time.Duration) {
	var last error
	for i, d := range ds {
		err := outcomes[i]
		if err != nil && identical(err, last) { // it is the whole batch's
			err = &sameError{err}
		}
		last = outcomes[i]
		r.settle(d, err, now)
	}
}

// identical compares two errors as values. Those whose types can't be compared are taken for different.
func identical(a, b error) (same bool) {
	defer func() { _ = recover() }()
	return a == b
}

// Handle implements ackfloor.Handler.
func (h ofOne) Handle(ctx context.Context, m *ackfloor.Message) error {
	b := ackfloor.NewBatch(m)
	return b.Outcomes(h.next.HandleBatch(ctx, b))[0]
}
