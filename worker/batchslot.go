package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
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
		if admitted := r.admitBatch(batch); len(admitted) > 0 {
			r.handleBatch(admitted)
		}
	}
}

// admitBatch is admit for a batch. Each record is a request, so several are read at once, and the handler's time begins behind that.
func (r *Runner) admitBatch(batch []*delivery) (admitted []*delivery) {
	if !slices.ContainsFunc(batch, func(d *delivery) bool { return d.past != nil }) {
		return batch
	}
	for _, d := range batch {
		d.attempt.setLimit(never)
	}
	calls := make([]bool, len(batch))
	var all sync.WaitGroup
	few := make(chan struct{}, bookWriters)
	for i, d := range batch {
		if calls[i] = d.past == nil; calls[i] {
			continue
		}
		few <- struct{}{}
		all.Go(func() {
			defer func() { <-few }()
			calls[i] = r.admit(d)
		})
	}
	all.Wait()
	limit := r.clock.now() + r.cfg.HandleTimeout
	for i, d := range batch {
		if calls[i] && (d.past == nil || !r.tooLate(d)) {
			d.attempt.begin(limit)
			admitted = append(admitted, d)
		}
	}
	return admitted
}

// handleBatch calls the handler for a batch and settles each message, whatever the call does.
func (r *Runner) handleBatch(ds []*delivery) {
	r.leases.by(ds[0].attempt.limit)
	messages := make([]*ackfloor.Message, len(ds))
	for i, d := range ds {
		messages[i] = &d.msg
	}
	b := ackfloor.NewBatch(messages...)
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
	if why := ds[0].attempt.ended(); errors.Is(why, ackfloor.ErrStopping) || errors.Is(why, ackfloor.ErrLeaseLost) {
		for _, d := range ds[1:] { // their handler was told, whether they were or not
			d.attempt.end(ackfloor.ErrStopping)
		}
	}
	var last error
	for i, d := range slices.Backward(ds) { // each goes to the front of what waits
		if isPause(outcomes[i]) {
			r.settle(d, outcomes[i], now)
		}
	}
	for i, d := range ds {
		err := outcomes[i]
		if isPause(err) {
			continue
		}
		if err != nil && identical(err, last) { // it is the whole batch's
			err = &sameError{err}
		}
		last = outcomes[i]
		r.settle(d, err, now)
	}
}

// isPause tells whether an error asks for a pause. One with a method that panics does not.
func isPause(err error) bool {
	defer func() { _ = recover() }()
	var pause *ackfloor.PauseError
	return err != nil && errors.As(err, &pause)
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
