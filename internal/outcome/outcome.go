// Package outcome reads how a call of a handler ended, for those who stand beside the Runner: metrics and traces. What becomes of the message is decided behind
// it, by the Runner.
package outcome

import (
	"context"
	"errors"

	"github.com/ackfloor/ackfloor"
)

// Outcome is how a call ended.
type Outcome int

// The outcomes.
const (
	OK          Outcome = iota
	Failed              // an ordinary error
	Permanent           // Permanent, also of a payload that can't be decoded
	RetryAfter          // RetryAfter
	Paused              // Pause: no failure
	TimedOut            // an error, and the handle timeout had passed
	Interrupted         // an error, and the drain's grace had ended, or the lease was lost: no failure
	Panicked            // it panicked, or called runtime.Goexit
	Count               // how many there are
)

// Names are their names, by number.
var Names = [Count]string{"ok", "failed", "permanent", "retry_after", "paused", "timed_out", "interrupted", "panicked"}

func (o Outcome) String() string { return Names[o] }

// Of reads what a handler returned, in the order in which a Runner does. Methods of an error are code of the user: where one
// panics, the call has failed.
func Of(ctx context.Context, err error) (out Outcome) {
	if err == nil {
		return OK
	}
	defer func() {
		if recover() != nil {
			out = Failed
		}
	}()
	if _, is := errors.AsType[*ackfloor.PermanentError](err); is {
		return Permanent
	}
	var cause error
	if ctx.Err() != nil { // asked first: the cause may cost a context
		cause = context.Cause(ctx)
	}
	if _, is := errors.AsType[*ackfloor.PanicError](err); is {
		return Panicked
	}
	if errors.Is(cause, ackfloor.ErrStopping) || errors.Is(cause, ackfloor.ErrLeaseLost) {
		return Interrupted
	}
	if _, is := errors.AsType[*ackfloor.PauseError](err); is {
		return Paused
	}
	if errors.Is(cause, ackfloor.ErrHandleTimeout) {
		return TimedOut
	}
	if _, is := errors.AsType[*ackfloor.RetryAfterError](err); is {
		return RetryAfter
	}
	return Failed
}
