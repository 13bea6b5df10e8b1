package metrics

import (
	"context"
	"errors"

	"github.com/ackfloor/ackfloor"
)

// outcome is how a call of a handler ended. What becomes of the message is decided behind it: messages_total counts that.
type outcome int

const (
	ok          outcome = iota
	failed              // an ordinary error
	permanent           // Permanent, also of a payload that can't be decoded
	retryAfter          // RetryAfter
	paused              // Pause: no failure
	timedOut            // an error, and the handle timeout had passed
	interrupted         // an error, and the drain's grace had ended, or the lease was lost: no failure
	panicked            // it panicked, or called runtime.Goexit
	outcomes
)

var outcomeNames = [outcomes]string{"ok", "failed", "permanent", "retry_after", "paused", "timed_out", "interrupted", "panicked"}

// outcomeOf reads what a handler returned, in the order in which a Runner does. Methods of an error are code of the user: where one
// panics, the call has failed.
func outcomeOf(ctx context.Context, err error) (out outcome) {
	if err == nil {
		return ok
	}
	defer func() {
		if recover() != nil {
			out = failed
		}
	}()
	if _, is := errors.AsType[*ackfloor.PermanentError](err); is {
		return permanent
	}
	var cause error
	if ctx.Err() != nil { // asked first: the cause may cost a context
		cause = context.Cause(ctx)
	}
	if _, is := errors.AsType[*ackfloor.PanicError](err); is {
		return panicked
	}
	if errors.Is(cause, ackfloor.ErrStopping) || errors.Is(cause, ackfloor.ErrLeaseLost) {
		return interrupted
	}
	if _, is := errors.AsType[*ackfloor.PauseError](err); is {
		return paused
	}
	if errors.Is(cause, ackfloor.ErrHandleTimeout) {
		return timedOut
	}
	if _, is := errors.AsType[*ackfloor.RetryAfterError](err); is {
		return retryAfter
	}
	return failed
}
