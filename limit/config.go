package limit

import (
	"context"
	"errors"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
)

// AdaptiveConfig is what an Adaptive can be told. A zero field means its default.
type AdaptiveConfig struct {
	Min     int // handlers at once, at the least, from 1; default 1
	Max     int // handlers at once, at the most, up to 10000; default 64. Give the worker as many slots: Config.Concurrency
	Initial int // the limit at the start, which holds until there are samples, Min to Max; default 16, or what of that is within Min and Max
	Fixed   int // the limit while it is fixed, see Adaptive.UseFixed, 1 to 10000; default Initial

	Window  time.Duration // how often the limit may change, 10ms to 30s; default 1s, which suits handlers of up to some 100 ms
	Samples int           // handlers that returned nil or timed out, in a window, without which it does not follow the latency, 10 to 10000; default 50

	// Errors is the share of calls with an error of overload from which on the limit is lowered, 0.01 to 1; default 0.1. Overload tells which errors are meant; default
	// the function Overload. It is not asked about Pause, or where a handler was interrupted. It is called from several goroutines at once.
	Errors   float64
	Overload func(err error) bool
}

// Overload is the default of AdaptiveConfig.Overload: every error but those that the handler marked as the message's own, by ackfloor.Permanent
// or ackfloor.RetryAfter. A timeout counts, and so does a panic.
func Overload(err error) bool {
	if err == nil {
		return false
	}
	if _, ok := errors.AsType[*ackfloor.PermanentError](err); ok {
		return false
	}
	_, ok := errors.AsType[*ackfloor.RetryAfterError](err)
	return !ok
}

const mostSlots = 10_000 // handlers at once, as worker.Config has it

// withDefaults fills the fields that are zero.
func (c AdaptiveConfig) withDefaults() AdaptiveConfig {
	if c.Min == 0 {
		c.Min = 1
	}
	if c.Max == 0 {
		c.Max = max(64, c.Min, c.Initial)
	}
	if c.Initial == 0 {
		c.Initial = min(max(16, c.Min), c.Max)
	}
	if c.Fixed == 0 {
		c.Fixed = c.Initial
	}
	if c.Window == 0 {
		c.Window = time.Second
	}
	if c.Samples == 0 {
		c.Samples = 50
	}
	if c.Errors == 0 {
		c.Errors = 0.1
	}
	if c.Overload == nil {
		c.Overload = Overload
	}
	return c
}

// faults lists what is wrong with c, all of it, defaults filled in.
func (c AdaptiveConfig) faults() (f faults) {
	f.check(c.Min >= 1 && c.Min <= mostSlots, "Min", c.Min, "a whole number from 1 to 10000")
	f.check(c.Max >= c.Min && c.Max <= mostSlots, "Max", c.Max, "a whole number from Min to 10000")
	f.check(c.Initial >= c.Min && c.Initial <= c.Max, "Initial", c.Initial, "a whole number from Min to Max")
	f.check(c.Fixed >= 1 && c.Fixed <= mostSlots, "Fixed", c.Fixed, "a whole number from 1 to 10000")
	f.check(c.Window >= 10*time.Millisecond && c.Window <= longestWindow, "Window", c.Window, "a duration from 10ms to 30s, such as 1s")
	f.check(c.Samples >= 10 && c.Samples <= 10_000, "Samples", c.Samples, "a whole number from 10 to 10000")
	f.check(c.Errors >= 0.01 && c.Errors <= 1, "Errors", c.Errors, "a share from 0.01 to 1") // NaN is neither
	return f
}

const longestWindow = 30 * time.Second // also where the fastest of the handlers takes longer than half a window, which lengthens it

// Two settings of the limiter, each against its own default, by the share of what a simulated service could do that 64 slots got out of it (16 workers, then 4, then 40, a
// minute each, twelve seeds, a window of 1 s):
//
//	correlation of throughput with what runs, over 50 windows (its default)    93 %, 97 %, 50 %; with the longer average below 23 % in the third
//	without correlation, average over 10 windows (its default)                 100 %, 100 %, 99 %, with latencies twelve times as long in the second
//	without correlation, average over 100 windows                              100 %, 100 %, 82 %, with latencies three times as long
//
// The correlation takes what it saw of the smaller service for what the larger one does, and goes down to Min when capacity comes back. A short average takes overload for
// normal within seconds, and the limit climbs through it.
const (
	baselineAge = 100 // windows
	correlation = 1   // windows: below the ten that the limiter takes as the least, so that it makes nothing of them
)

// limiter builds the limiter that c describes. It is asked for permits with TryAcquirePermit alone: who waits is counted and woken here.
func (c AdaptiveConfig) limiter() adaptivelimiter.AdaptiveLimiter[any] {
	return adaptivelimiter.NewBuilder[any]().
		WithLimits(uint(c.Min), uint(c.Max), uint(c.Initial)).
		WithRecentWindow(c.Window, longestWindow, uint(c.Samples)).
		WithBaselineWindow(baselineAge).
		WithCorrelationWindow(correlation).
		Build()
}

// sign is what a call says of what it needed.
type sign int

const (
	neutral sign = iota // nothing
	good                // it answered, and how long that took is a sample
	refused             // overload, at once, which says nothing of how long an answer takes
	slow                // overload: it timed out, and how long that took is a sample
)

// sign reads what a handler returned. It calls code of the user, Overload and methods of errors.
func (c AdaptiveConfig) sign(ctx context.Context, err error) sign {
	if err == nil {
		return good
	}
	late := false
	if ctx.Err() != nil { // asked first: the cause may cost a context
		if late = isTimeout(context.Cause(ctx)); !late {
			return neutral // interrupted: stopping, or the lease is lost
		}
	}
	if _, ok := errors.AsType[*ackfloor.PauseError](err); ok || !c.Overload(err) {
		return neutral
	}
	if late || isTimeout(err) {
		return slow
	}
	return refused
}

// isTimeout tells whether an error is one, be it the handle timeout, another context's, or the network's.
func isTimeout(err error) bool {
	if errors.Is(err, ackfloor.ErrHandleTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}
