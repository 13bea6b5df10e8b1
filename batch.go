package ackfloor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Batch is several messages that are handled together. Each has an outcome of its own: what Done and Fail say of it; of the others,
// what HandleBatch returns. Its methods may be called from several goroutines.
type Batch struct {
	Messages []*Message // in the order in which they came: that of the stream, but for those that come again

	given []*Message // as they were given: the handler may sort Messages, or leave some out

	mu   sync.Mutex
	told map[*Message]error
}

// NewBatch makes a batch, for a test of a BatchHandler.
func NewBatch(messages ...*Message) *Batch {
	return &Batch{Messages: messages, given: slices.Clone(messages)}
}

// Done says that message i is done, whatever else happens: it is acknowledged also where HandleBatch panics or returns an error. It panics where there is
// no message i, as an index does.
func (b *Batch) Done(i int) { b.tell(i, nil) }

// Fail says that message i has failed, with an error that means what a Handler's does: Permanent, RetryAfter and Pause hold. The last word on a message counts.
// Fail(i, nil) is Done(i).
func (b *Batch) Fail(i int, err error) { b.tell(i, err) }

func (b *Batch) tell(i int, err error) {
	m := b.Messages[i]
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.told == nil {
		b.told = make(map[*Message]error)
	}
	b.told[m] = err
}

// Outcomes tells what becomes of each message, as they were given, when HandleBatch has returned err: nil is done. A Runner calls it, and a test of a
// BatchHandler may.
func (b *Batch) Outcomes(err error) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	given := b.given
	if given == nil {
		given = b.Messages
	}
	named := make(map[*Message]error)
	if some, others, is := asBatchError(err); is {
		if !some.fits(len(b.Messages)) {
			err = fmt.Errorf("a BatchError for messages that the batch of %d does not have: %w", len(b.Messages), err)
		} else {
			for i, e := range some.Errors {
				named[b.Messages[i]] = e
			}
			if !others {
				err = nil // of the others
			}
		}
	}
	out := make([]error, len(given))
	for i, m := range given {
		told, said := b.told[m]
		if !said {
			if told, said = named[m]; !said {
				told = err
			}
		}
		out[i] = told
	}
	return out
}

// asBatchError finds the BatchErrors in an error: all that are joined in it, as one. others tells that something else is joined with them, which is the
// error of the messages that they don't name. An error with a method that panics has none: it is the error of all.
func asBatchError(err error) (all *BatchError, others, is bool) {
	defer func() {
		if recover() != nil {
			all, others, is = nil, false, false
		}
	}()
	all = &BatchError{Errors: make(map[int]error)}
	var walk func(error)
	walk = func(err error) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				walk(e)
			}
			return
		}
		if some, ok := err.(*BatchError); ok {
			is = true
			all.add(some)
		} else if next := errors.Unwrap(err); next != nil {
			walk(next)
		} else if some = nil; errors.As(err, &some) {
			is = true
			all.add(some)
		} else if err != nil {
			others = true
		}
	}
	walk(err)
	return all, others, is
}

// add takes over what another names.
func (e *BatchError) add(other *BatchError) {
	if other == nil { // a nil pointer names none
		return
	}
	for i, err := range other.Errors {
		if e.Errors[i] != nil {
			err = errors.Join(e.Errors[i], err)
		}
		e.Errors[i] = err
	}
}

// BatchError is what HandleBatch returns where some messages have failed: by their index in Batch.Messages. The others are done. Where several are joined, they count
// as one; what else is joined with them is the error of the messages that they don't name. A Permanent or RetryAfter around one counts for none of them: give each message
// its own.
type BatchError struct{ Errors map[int]error }

func (e *BatchError) Error() string {
	for _, i := range slices.Sorted(maps.Keys(e.Errors)) {
		if e.Errors[i] != nil {
			return fmt.Sprintf("%d of a batch failed, the first is message %d: %v", len(e.Errors), i, e.Errors[i])
		}
	}
	return "none of a batch failed"
}

func (e *BatchError) fits(n int) bool {
	for i := range e.Errors {
		if i < 0 || i >= n {
			return false
		}
	}
	return true
}

// BatchHandler does the work of several messages at once, such as one insert for all. What it returns decides what becomes of those that
// it has not spoken of by Done or Fail: nil, they are done; a *BatchError, those that it names have failed and the others are done; any
// other error, or a panic, all have failed. A batch that fails as a whole comes again in smaller ones, so that a message which spoils it is found.
//
// ctx and the rules of an attempt are those of Handler.
type BatchHandler interface {
	HandleBatch(ctx context.Context, b *Batch) error
}

// BatchHandlerFunc is a function that is a BatchHandler.
type BatchHandlerFunc func(ctx context.Context, b *Batch) error

// HandleBatch calls f.
func (f BatchHandlerFunc) HandleBatch(ctx context.Context, b *Batch) error { return f(ctx, b) }
