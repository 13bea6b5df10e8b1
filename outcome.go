package ackfloor

import (
	"errors"
	"fmt"
	"time"
)

// The causes with which a Runner ends a handler's context. context.Cause(ctx) returns one of them (or an error that wraps
// it), so that a handler can tell a deploy from a hang.
var (
	// ErrStopping says that the drain's grace ended. The message comes back at once and nothing counts as a failure.
	ErrStopping = errors.New("ackfloor: stopping: the drain's grace has ended")

	// ErrHandleTimeout says that one attempt took longer than the handle timeout. Its lease is no longer extended and
	// the message comes back after the retry policy's delay.
	ErrHandleTimeout = errors.New("ackfloor: the handle timeout has passed")

	// ErrLeaseLost says that the server could not be told for ack_wait that the message is still being worked on, so that
	// another worker may have it by now. What the handler returns afterwards is settled where that can do no harm, and
	// reported as late.
	ErrLeaseLost = errors.New("ackfloor: the lease is lost")
)

// Permanent marks err as one that no retry can mend: the message is not tried again. It holds through wrapping and
// errors.Join, and it wins over RetryAfter. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &PermanentError{Err: err}
}

// PermanentError is the error that Permanent makes.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }

// Unwrap returns the error that was marked.
func (e *PermanentError) Unwrap() error { return e.Err }

// RetryAfter asks for the message to come back after d, whatever the retry policy says; the limit of attempts still holds.
// A negative d counts as 0. It holds through wrapping and errors.Join. RetryAfter(d, nil) is nil.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &RetryAfterError{Delay: max(0, d), Err: err}
}

// RetryAfterError is the error that RetryAfter makes.
type RetryAfterError struct {
	Delay time.Duration // from now until the message comes back
	Err   error
}

func (e *RetryAfterError) Error() string { return e.Err.Error() }

// Unwrap returns the error that was marked.
func (e *RetryAfterError) Unwrap() error { return e.Err }

// Pause says that what the handler needs is out of order, not the message: a database that is down, a provider that refuses all.
// The worker keeps the message, under lease, starts no other and pulls no more until d has passed; then it tries one message, and goes on
// when that one's handler returns anything but Pause again. It is no failure: no attempt is charged. It holds through wrapping and
// errors.Join; Permanent wins over it, and it wins over RetryAfter. A d below 100 ms counts as 100 ms. Pause(d, nil) is nil.
func Pause(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &PauseError{Delay: max(100*time.Millisecond, d), Err: err}
}

// PauseError is the error that Pause makes.
type PauseError struct {
	Delay time.Duration // from now until one message is tried
	Err   error
}

func (e *PauseError) Error() string { return e.Err.Error() }

// Unwrap returns the error that was marked.
func (e *PauseError) Unwrap() error { return e.Err }

// PanicError is what a handler's panic becomes: an ordinary failure of its message, with the value and the stack. A
// handler that ends its goroutine by runtime.Goexit yields one too, with Goexit set.
type PanicError struct {
	Value  any    // what panic was called with; nil with Goexit
	Stack  []byte // of the goroutine that panicked; nil with Goexit
	Goexit bool   // the handler called runtime.Goexit
}

func (e *PanicError) Error() string {
	if e.Goexit {
		return "ackfloor: the handler called runtime.Goexit"
	}
	return fmt.Sprintf("ackfloor: the handler panicked: %v", e.Value)
}

// Unwrap returns the panic's value if it is an error, else nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
