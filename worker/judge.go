package worker

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/retry"
	"go.uber.org/zap"
)

// verdictKind is what becomes of a message.
type verdictKind int

const (
	acked    verdictKind = iota // done
	retried                     // a failure: comes back after a delay
	givenUp                     // a failure for good: permanent, or the attempts are used up
	returned                    // interrupted, no failure: comes back at once
	late                        // failed after its lease was lost: it is another's by now, nothing is sent
	paused                      // not settled: it is held until what its handler needs is back
)

// verdict is what an outcome means for its message.
type verdict struct {
	kind   verdictKind
	delay  time.Duration // retried, returned: until it comes back
	reason string        // givenUp: one of deadletter's; retried: failed, timed out, panicked
	letter bool          // givenUp: its dead letter is written
}

// failedReason is that of a retry after an ordinary error.
const failedReason = "failed"

// outcome is how a handler's call ended.
type outcome struct {
	err     error
	cause   error // of the context's end, nil if it had not ended when the handler returned
	attempt int
	age     time.Duration // since the message was published
}

// judge maps an outcome to its verdict. It decides everything, and does nothing.
func judge(o outcome, policy retry.Policy, maxAttempts int) verdict {
	if o.err == nil {
		return verdict{kind: acked}
	}
	var permanent *ackfloor.PermanentError
	if errors.As(o.err, &permanent) {
		var undecodable *ackfloor.DecodeError
		if errors.As(o.err, &undecodable) {
			return verdict{kind: givenUp, reason: deadletter.ReasonUndecodable}
		}
		return verdict{kind: givenUp, reason: deadletter.ReasonPermanent}
	}
	var panicked *ackfloor.PanicError
	var pause *ackfloor.PauseError
	reason := failedReason
	switch {
	case errors.As(o.err, &panicked):
		reason = "panicked"
	case errors.Is(o.cause, ackfloor.ErrStopping):
		return verdict{kind: returned}
	case errors.Is(o.cause, ackfloor.ErrLeaseLost):
		return verdict{kind: late}
	case errors.Is(o.err, errTurnedAway):
		return verdict{kind: returned}
	case errors.As(o.err, &pause):
		return verdict{kind: paused, delay: pause.Delay}
	case errors.Is(o.cause, ackfloor.ErrHandleTimeout):
		reason = deadletter.ReasonTimedOut
	}
	if o.attempt >= maxAttempts {
		return verdict{kind: givenUp, reason: exhausted(reason)}
	}
	var after *ackfloor.RetryAfterError
	if errors.As(o.err, &after) {
		return verdict{kind: retried, delay: after.Delay, reason: reason}
	}
	delay, again := policy(o.attempt, &retry.Failure{Err: o.err, Age: o.age})
	if !again {
		return verdict{kind: givenUp, reason: exhausted(reason)}
	}
	return verdict{kind: retried, delay: delay, reason: reason}
}

// exhausted names why the last attempt was the last: a message that only ever timed out is told from one that failed.
func exhausted(reason string) string {
	if reason == deadletter.ReasonTimedOut {
		return reason
	}
	return deadletter.ReasonExhausted
}

// judged is judge, which calls code of the user: the policy, and methods of errors, where a nil pointer in an error is a common slip. A
// panic there is a failure of this message alone.
func (r *Runner) judged(o outcome) (v verdict) {
	if o.err == nil {
		return verdict{kind: acked}
	}
	defer func() {
		if p := recover(); p != nil {
			r.counters.panics.Add(1)
			r.log.Error("the retry policy, or a method of the error, panicked", zap.String("panic", shown(fmt.Sprint(p))), zap.ByteString("stack", debug.Stack()))
			v = verdict{kind: retried, delay: r.leaseTime(), reason: "panicked"}
			if o.attempt >= r.cfg.MaxAttempts {
				v = verdict{kind: givenUp, reason: exhausted(v.reason)}
			}
		}
	}()
	v = judge(o, r.policy, r.cfg.MaxAttempts)
	v.delay = min(v.delay, delayMost)
	return v
}

// delayMost is for ever: behind any moment that a clock shows it is a moment still.
const delayMost = 100 * 365 * 24 * time.Hour
