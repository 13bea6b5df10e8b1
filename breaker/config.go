package breaker

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

// Config is what a Breaker can be told. A zero field means its default, and the zero Config is a good one: five failures in a
// row open it, after 10 s one message is tried.
//
// When it opens:
//
//	Failures 5                         five in a row
//	Failures 5, Calls 20               five of the last 20 calls
//	Failures 5, Window 10s             five within 10 s
//	Ratio 0.5, Calls 20, Window 10s    half of the calls of 10 s, if they are 20 at the least
//
// Failures of one message that fails again and again count once, until as many others have failed as it takes to open: so
// a message that is itself the trouble uses up its attempts, and opens nothing. With Failures 1 any failure opens.
type Config struct {
	Failures int           // failures that open it, 1 to 1000000; default 5; not with Ratio
	Calls    int           // calls among which Failures are counted, or calls below which a Ratio means nothing; up to 1000000; default 0, Failures in a row
	Ratio    float64       // share of failures that opens it, 0.01 to 1, compared at two decimals; default 0: Failures decides
	Window   time.Duration // how far back failures count, at least 100ms, in steps of a tenth; default 0: any time

	Delay     time.Duration // from opening until a trial, at least 100ms, as a Pause takes; default 10s
	MaxDelay  time.Duration // with it, Delay doubles up to it each time that a trial fails, and is Delay again once closed; default 0: Delay stays
	Successes int           // successful trials that close it, and trials under way at once; 1 to 1000000; default 1, which suits a worker: it tries one message itself

	// Counts tells whether an error counts as a failure of what the handler needs; default Outage. An error that does not is as good as
	// nil: something answered. It is not asked about nil, Pause, a panic, or a handler that was interrupted. It is called from several
	// goroutines at once.
	Counts func(err error) bool

	// OnChange is told each change, one at a time and in their order, by the call that made it, mostly before that call returns. It
	// may call State, must not block, and where it panics the handler has.
	OnChange func(Change)
}

// Outage is the default of Config.Counts: every error but those that the handler marked as the message's own, by ackfloor.Permanent
// or ackfloor.RetryAfter. A handle timeout counts: what is down does not always say so.
func Outage(err error) bool {
	if err == nil {
		return false
	}
	if _, ok := errors.AsType[*ackfloor.PermanentError](err); ok {
		return false
	}
	_, ok := errors.AsType[*ackfloor.RetryAfterError](err)
	return !ok
}

// ConfigError lists everything that is wrong with a Config.
type ConfigError struct{ Problems []string }

func (e *ConfigError) Error() string {
	if len(e.Problems) == 1 {
		return "breaker: configuration: " + e.Problems[0]
	}
	return fmt.Sprintf("breaker: configuration: %d problems:\n  - %s", len(e.Problems), strings.Join(e.Problems, "\n  - "))
}

// ExitCode is 78, EX_CONFIG: starting again won't help.
func (e *ConfigError) ExitCode() int { return 78 }

const (
	shortest = 100 * time.Millisecond // the shortest Pause
	most     = 1_000_000              // calls: each takes a bit of memory
)

// withDefaults fills the fields that are zero.
func (c Config) withDefaults() Config {
	if c.Failures == 0 && c.Ratio == 0 {
		c.Failures = 5
	}
	if c.Delay == 0 {
		c.Delay = 10 * time.Second
	}
	if c.MaxDelay == 0 {
		c.MaxDelay = c.Delay
	}
	if c.Successes == 0 {
		c.Successes = 1
	}
	if c.Counts == nil {
		c.Counts = Outage
	}
	return c
}

// problems lists what is wrong with c, all of it, defaults filled in.
func (c Config) problems() []string {
	var out []string
	bad := func(ok bool, name string, value any, accepts string) {
		if !ok {
			out = append(out, fmt.Sprintf("%s is %v: it takes %s", name, value, accepts))
		}
	}
	if c.Ratio == 0 {
		bad(c.Failures >= 1 && c.Failures <= most, "Failures", c.Failures, "a whole number from 1 to 1000000")
		bad(c.Calls == 0 || c.Calls >= c.Failures && c.Calls <= most, "Calls", c.Calls, "a whole number from Failures to 1000000, or 0 for Failures in a row")
		bad(c.Calls == 0 || c.Window == 0, "Calls", c.Calls, "0 beside a Window without a Ratio: Failures within the Window open it, among however many calls")
	} else {
		bad(c.Ratio >= 0.01 && c.Ratio <= 1, "Ratio", c.Ratio, "a share from 0.01 to 1") // NaN is neither
		bad(c.Failures == 0, "Failures", c.Failures, "0 beside a Ratio, which decides alone")
		bad(c.Calls >= 1 && c.Calls <= most, "Calls", c.Calls, "a whole number from 1 to 1000000 beside a Ratio, such as 20: among fewer calls the Ratio means nothing")
		bad(c.Window != 0, "Window", c.Window, "a duration of at least 100ms beside a Ratio, such as 10s")
	}
	bad(c.Window == 0 || c.Window >= shortest, "Window", c.Window, "a duration of at least 100ms, such as 10s, or 0 for any time")
	bad(c.Delay >= shortest, "Delay", c.Delay, "a duration of at least 100ms, such as 10s")
	bad(c.MaxDelay >= c.Delay, "MaxDelay", c.MaxDelay, "a duration of at least Delay, or 0 for a Delay that stays")
	bad(c.Successes >= 1 && c.Successes <= most, "Successes", c.Successes, "a whole number from 1 to 1000000")
	return out
}

// others is how many messages must have failed since a message's failure was recorded, until it is recorded again.
func (c Config) others() int {
	n := c.Failures
	if c.Ratio > 0 {
		n = int(math.Ceil(c.Ratio * float64(c.Calls)))
	}
	return min(n, 64) - 1 // that many are looked through at each failure
}

// circuit builds the circuit breaker that c describes.
func (c Config) circuit(changed func(circuitbreaker.StateChangedEvent)) circuitbreaker.CircuitBreaker[any] {
	b := circuitbreaker.NewBuilder[any]()
	switch {
	case c.Ratio > 0:
		b.WithFailureRateThreshold(c.Ratio, uint(c.Calls), c.Window)
	case c.Window > 0:
		b.WithFailureThresholdPeriod(uint(c.Failures), c.Window)
	default:
		b.WithFailureThresholdRatio(uint(c.Failures), uint(max(c.Failures, c.Calls)))
	}
	// Without a success threshold the half-open state would take as many trials as failures open it.
	return b.WithSuccessThreshold(uint(c.Successes)).WithDelay(c.Delay).OnStateChanged(changed).Build()
}
