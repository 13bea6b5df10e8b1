package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/retry"
)

var errWork = errors.New("the work failed")

func wrapTwice(err error) error { return fmt.Errorf("reserve: %w", fmt.Errorf("in the shop: %w", err)) }

// The class of an error survives wrapping and joining, and the cause of the context's end decides where the error alone can't.
func TestVerdicts(t *testing.T) {
	const policyDelay = 7 * time.Second
	policy := retry.Constant(policyDelay)
	soon := func(err error) error { return ackfloor.RetryAfter(30*time.Second, err) }
	again := func(delay time.Duration, reason string) verdict {
		return verdict{kind: retried, delay: delay, reason: reason}
	}
	failed := again(policyDelay, "failed")
	permanent := verdict{kind: givenUp, reason: "permanent"}
	exhausted := verdict{kind: givenUp, reason: "exhausted"}
	timedOut := verdict{kind: givenUp, reason: "timed out"}
	undecodable := ackfloor.JSON(func(context.Context, int, *ackfloor.Message) error { return nil }).
		Handle(t.Context(), &ackfloor.Message{Data: []byte("{")})

	const last = 5
	later := func(err error) error { return ackfloor.Pause(30*time.Second, err) }
	pause := verdict{kind: paused, delay: 30 * time.Second}
	tests := []struct {
		name    string
		err     error
		cause   error
		attempt int // 1 where it is 0
		want    verdict
	}{
		{name: "nil", want: verdict{kind: acked}},
		{name: "nil on the last attempt", attempt: last, want: verdict{kind: acked}},
		{name: "nil though the grace ended", cause: ackfloor.ErrStopping, want: verdict{kind: acked}},
		{name: "nil though the time was over", cause: ackfloor.ErrHandleTimeout, want: verdict{kind: acked}},
		{name: "any error", err: errWork, want: failed},
		{name: "an error on the attempt before the last", err: errWork, attempt: last - 1, want: failed},

		{name: "Permanent", err: ackfloor.Permanent(errWork), want: permanent},
		{name: "Permanent wrapped twice", err: wrapTwice(ackfloor.Permanent(errWork)), want: permanent},
		{name: "Permanent joined", err: errors.Join(errWork, ackfloor.Permanent(errWork)), want: permanent},
		{name: "Permanent wrapped twice and joined", err: errors.Join(errWork, wrapTwice(ackfloor.Permanent(errWork))), want: permanent},
		{name: "Permanent, joined, then wrapped twice", err: wrapTwice(errors.Join(ackfloor.Permanent(errWork), errWork)), want: permanent},
		{name: "Permanent on the last attempt", err: ackfloor.Permanent(errWork), attempt: last, want: permanent},
		{name: "Permanent as the grace ended", err: ackfloor.Permanent(errWork), cause: ackfloor.ErrStopping, want: permanent},
		{name: "Permanent as the time was over", err: ackfloor.Permanent(errWork), cause: ackfloor.ErrHandleTimeout, want: permanent},
		{name: "undecodable", err: undecodable, want: verdict{kind: givenUp, reason: "undecodable"}},
		{name: "undecodable wrapped and joined", err: errors.Join(errWork, wrapTwice(undecodable)), want: verdict{kind: givenUp, reason: "undecodable"}},

		{name: "RetryAfter", err: soon(errWork), want: again(30*time.Second, "failed")},
		{name: "RetryAfter wrapped twice", err: wrapTwice(soon(errWork)), want: again(30*time.Second, "failed")},
		{name: "RetryAfter joined", err: errors.Join(errWork, soon(errWork)), want: again(30*time.Second, "failed")},
		{name: "RetryAfter at once", err: ackfloor.RetryAfter(0, errWork), want: again(0, "failed")},
		{name: "RetryAfter in the past", err: ackfloor.RetryAfter(-time.Second, errWork), want: again(0, "failed")},
		{name: "RetryAfter on the last attempt", err: soon(errWork), attempt: last, want: exhausted},
		{name: "Permanent and RetryAfter joined", err: errors.Join(ackfloor.Permanent(errWork), soon(errWork)), want: permanent},
		{name: "RetryAfter and Permanent joined", err: errors.Join(soon(errWork), ackfloor.Permanent(errWork)), want: permanent},
		{name: "RetryAfter around Permanent", err: soon(ackfloor.Permanent(errWork)), want: permanent},
		{name: "Permanent around RetryAfter", err: ackfloor.Permanent(soon(errWork)), want: permanent},

		{name: "the deadline of the handler's own call", err: context.DeadlineExceeded, want: failed},
		{name: "the same, wrapped", err: wrapTwice(context.DeadlineExceeded), want: failed},
		{name: "its own cancellation", err: context.Canceled, want: failed},
		{name: "the handle timeout", err: context.DeadlineExceeded, cause: ackfloor.ErrHandleTimeout, want: again(policyDelay, "timed out")},
		{name: "the handle timeout with RetryAfter", err: soon(errWork), cause: ackfloor.ErrHandleTimeout, want: again(30*time.Second, "timed out")},
		{name: "the handle timeout on the last attempt", err: context.DeadlineExceeded, cause: ackfloor.ErrHandleTimeout, attempt: last, want: timedOut},

		{name: "Canceled because of the stop", err: context.Canceled, cause: ackfloor.ErrStopping, want: verdict{kind: returned}},
		{name: "wrapped, because of the stop", err: wrapTwice(context.Canceled), cause: ackfloor.ErrStopping, want: verdict{kind: returned}},
		{name: "the stop on the last attempt", err: context.Canceled, cause: ackfloor.ErrStopping, attempt: last, want: verdict{kind: returned}},
		{name: "another error as the grace ended", err: errWork, cause: ackfloor.ErrStopping, want: verdict{kind: returned}},
		{name: "a cause that wraps the stop", err: context.Canceled, cause: wrapTwice(ackfloor.ErrStopping), want: verdict{kind: returned}},
		{name: "ErrStopping returned though nothing stops", err: ackfloor.ErrStopping, want: failed},

		{name: "the lease is lost", err: context.Canceled, cause: ackfloor.ErrLeaseLost, want: verdict{kind: late}},
		{name: "the lease is lost on the last attempt", err: errWork, cause: ackfloor.ErrLeaseLost, attempt: last, want: verdict{kind: late}},
		{name: "ErrLeaseLost returned though it is not", err: ackfloor.ErrLeaseLost, want: failed},

		{name: "Pause", err: later(errWork), want: pause},
		{name: "Pause wrapped twice", err: wrapTwice(later(errWork)), want: pause},
		{name: "Pause joined", err: errors.Join(errWork, later(errWork)), want: pause},
		{name: "Pause and RetryAfter joined", err: errors.Join(soon(errWork), later(errWork)), want: pause},
		{name: "Pause and Permanent joined", err: errors.Join(later(errWork), ackfloor.Permanent(errWork)), want: permanent},
		{name: "Pause on the last attempt", err: later(errWork), attempt: last, want: pause},
		{name: "Pause when the time was over", err: later(errWork), cause: ackfloor.ErrHandleTimeout, want: pause},
		{name: "Pause as the grace ended", err: later(errWork), cause: ackfloor.ErrStopping, want: verdict{kind: returned}},
		{name: "Pause though the lease is lost", err: later(errWork), cause: ackfloor.ErrLeaseLost, want: verdict{kind: late}},
		{name: "a panic with a Pause", err: &ackfloor.PanicError{Value: later(errWork)}, want: again(policyDelay, "panicked")},

		{name: "a panic", err: &ackfloor.PanicError{Value: "boom"}, want: again(policyDelay, "panicked")},
		{name: "a panic with an error", err: &ackfloor.PanicError{Value: errWork}, want: again(policyDelay, "panicked")},
		{name: "a panic with the context's error as the grace ended", err: &ackfloor.PanicError{Value: context.Canceled}, cause: ackfloor.ErrStopping, want: again(policyDelay, "panicked")},
		{name: "Goexit", err: &ackfloor.PanicError{Goexit: true}, want: again(policyDelay, "panicked")},
		{name: "a panic on the last attempt", err: &ackfloor.PanicError{Value: "boom"}, attempt: last, want: exhausted},

		{name: "the last attempt", err: errWork, attempt: last, want: exhausted},
		{name: "behind the last attempt", err: errWork, attempt: last + 3, want: exhausted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := judge(outcome{err: tt.err, cause: tt.cause, attempt: max(1, tt.attempt)}, policy, last); got != tt.want {
				t.Errorf("judged %+v, want %+v", got, tt.want)
			}
		})
	}
}

// A policy that says no ends the attempts, but not what a deploy interrupts, nor what the handler itself decided.
func TestPolicySaysNo(t *testing.T) {
	tests := []struct {
		name       string
		err, cause error
		want       verdict
	}{
		{"a failure", errWork, nil, verdict{kind: givenUp, reason: "exhausted"}},
		{"a timeout", context.DeadlineExceeded, ackfloor.ErrHandleTimeout, verdict{kind: givenUp, reason: "timed out"}},
		{"RetryAfter", ackfloor.RetryAfter(time.Second, errWork), nil, verdict{kind: retried, delay: time.Second, reason: "failed"}},
		{"a stop", context.Canceled, ackfloor.ErrStopping, verdict{kind: returned}},
		{"a lost lease", context.Canceled, ackfloor.ErrLeaseLost, verdict{kind: late}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := judge(outcome{err: tt.err, cause: tt.cause, attempt: 1}, retry.Never(), 10); got != tt.want {
				t.Errorf("judged %+v, want %+v", got, tt.want)
			}
		})
	}
}

// A policy decides by the attempt, the error and the message's age: it is told all three.
func TestPolicyIsTold(t *testing.T) {
	var attempt int
	var err error
	judge(outcome{err: wrapTwice(errWork), attempt: 3, age: time.Hour}, func(a int, e error) (time.Duration, bool) {
		attempt, err = a, e
		return 0, true
	}, 10)
	f, ok := errors.AsType[*retry.Failure](err)
	if attempt != 3 || !errors.Is(err, errWork) || !ok || f.Age != time.Hour {
		t.Errorf("the policy was told attempt %d and %#v", attempt, err)
	}
	old := judge(outcome{err: errWork, attempt: 1, age: time.Hour}, retry.LimitAge(retry.Constant(time.Second), time.Hour), 10)
	if old.kind != givenUp {
		t.Errorf("a message above the policy's age was judged %+v", old)
	}
}
