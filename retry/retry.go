// Package retry says when a message that failed is tried again. A Policy is a pure function of the attempt's number and
// its error: nothing is stored, nothing sleeps, so one Policy serves every message and every goroutine at once.
//
// Policies are built from small ones:
//
//	retry.LimitAge(
//		retry.ByError(retry.Exponential(time.Second, 5*time.Minute),
//			retry.Is(ErrRateLimited, retry.Constant(time.Minute)),
//			retry.As[*fs.PathError](retry.Never())),
//		24*time.Hour)
//
// What a handler says with ackfloor.RetryAfter or ackfloor.Permanent goes before any policy, and the Runner's limit of
// attempts holds beside it.
package retry

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

// Policy answers, after a failed attempt, how long to wait before the next (0 or more), and whether there is a next at
// all. attempt is the number of the attempt that has just failed, from 1; a lower one counts as 1. err is what it failed
// with: a Runner passes a *Failure, which also knows the message's age. With again false the delay means nothing.
//
// A Policy must be safe for several goroutines at once. A nil Policy is none: calling it panics.
type Policy func(attempt int, err error) (delay time.Duration, again bool)

// Failure is the error that a Runner passes to a Policy: what the attempt failed with, and how old its message is.
// errors.Is and errors.As look through it to Err.
type Failure struct {
	Err error         // what the handler returned
	Age time.Duration // since the stream stored the message, by this machine's clock; below 0 counts as 0
}

func (f *Failure) Error() string {
	if f.Err == nil {
		return "retry: a failure without an error"
	}
	return f.Err.Error()
}

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// Constant waits d after every attempt, without jitter. A negative d counts as 0.
func Constant(d time.Duration) Policy {
	d = max(0, d)
	return func(int, error) (time.Duration, bool) { return d, true }
}

// Exponential waits a random time between from and from × 2^attempt, never above to: full jitter, so that messages which
// failed together do not come back together, above a floor, so that none comes back at once.
//
// Exponential(time.Second, 5*time.Minute), the default of a Runner:
//
//	attempt   at least   at most   mean     mean, summed
//	1         1s         2s        1.5s     1.5s
//	2         1s         4s        2.5s     4s
//	3         1s         8s        4.5s     8.5s
//	4         1s         16s       8.5s     17s
//	5         1s         32s       16.5s    33.5s
//	6         1s         1m4s      32.5s    1m6s
//	7         1s         2m8s      1m4.5s   2m10.5s
//	8         1s         4m16s     2m8.5s   4m19s
//	9         1s         5m        2m30.5s  6m49.5s
//	10        1s         5m        2m30.5s  9m20s
//
// so ten attempts, between which nine delays lie, are spread over about seven minutes.
//
// A to below from counts as from. A from of 0 or less counts as a millisecond (or as to, if that is less), since doubling
// nothing gets nowhere.
func Exponential(from, to time.Duration) Policy {
	from, to = exponentialRange(from, to)
	return func(attempt int, _ error) (time.Duration, bool) {
		// No overflow: from is 0 only if to is, so the width is at most MaxInt64 - 1.
		width := ceiling(from, to, attempt) - from
		return from + time.Duration(rand.Int64N(int64(width)+1)), true
	}
}

func exponentialRange(from, to time.Duration) (time.Duration, time.Duration) {
	if from <= 0 {
		from = max(0, min(to, time.Millisecond))
	}
	return from, max(from, to)
}

// ceiling is min(to, from × 2^attempt), computed without overflow for every attempt: it compares by shifting to down.
func ceiling(from, to time.Duration, attempt int) time.Duration {
	attempt = max(1, attempt)
	if from > to>>attempt {
		return to
	}
	return from << attempt
}

// Table waits delays[0] after the first attempt, delays[1] after the second, and so on, without jitter; the last repeats.
// Negative delays count as 0. It panics if there are no delays: an empty table is a fault of the program, better seen at
// its start than at its first failure.
func Table(delays ...time.Duration) Policy {
	if len(delays) == 0 {
		panic("retry: Table needs at least one delay; use Never for no retry")
	}
	delays = slices.Clone(delays) // the caller may write to its slice later
	return func(attempt int, _ error) (time.Duration, bool) {
		return max(0, delays[min(max(1, attempt), len(delays))-1]), true
	}
}

// Never says no again after the first attempt: what failed once has failed.
func Never() Policy {
	return func(int, error) (time.Duration, bool) { return 0, false }
}

// LimitAttempts is p up to attempt n: after the n-th attempt there is no next. With n of 1 or less there is only the first.
func LimitAttempts(p Policy, n int) Policy {
	return func(attempt int, err error) (time.Duration, bool) {
		if attempt >= n || n <= 1 {
			return 0, false
		}
		return p(attempt, err)
	}
}

// LimitAge is p for messages younger than limit: one that is older, or would be after p's delay, is not tried again. It
// reads the age from a *Failure in err; an error without one has no age, and p alone decides.
func LimitAge(p Policy, limit time.Duration) Policy {
	limit = max(0, limit)
	return func(attempt int, err error) (time.Duration, bool) {
		delay, again := p(attempt, err)
		// Subtracted, not added: age + delay may overflow.
		if f, ok := errors.AsType[*Failure](err); ok && delay > limit-max(0, f.Age) {
			return 0, false
		}
		return delay, again
	}
}
