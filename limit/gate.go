// Package limit has gates for a worker: a limit of the rate (Rate, RateBy, and ByKey for one limit a customer or host), and a limit of how many
// handlers run at once which follows the latency and the errors of what they call (Adaptive). All puts several in a row.
//
//	perSecond, err := limit.Rate(rate.NewLimiter(50, 10)) // 50 messages a second, 10 at once
//	…
//	cfg.Gate = perSecond
//
// A gate is asked before each call of the handler, so for each attempt, by a slot that has taken a message (see worker.Gate). While the message waits, its
// lease is kept and its handle timeout has not begun. A stop hands back what still waits when the drain's grace is over, and that is no failure.
//
// # What a gate costs
//
// A message that waits occupies a slot, of which a worker has Config.Concurrency, and no other process gets it meanwhile. So a worker behind a gate
// holds as many messages as it has slots, however few run. The limits are those of this process: N processes which share a provider's limit
// are each given an Nth of it.
package limit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ackfloor/ackfloor"
)

// Gate decides when a message may be handled. It is worker.Gate: the gates of this package fit into worker.Config.Gate, and those of others into All.
//
// Enter waits until m may be handled, and returns the cause of ctx's end when that comes first. Where leave is not nil it has to be called once, with what the
// handler returned.
type Gate interface {
	Enter(ctx context.Context, m *ackfloor.Message) (leave func(err error), err error)
}

// All is several gates in a row: a message passes one after the other, and leaves them in reverse. What it took at the earlier ones while it waits at a later one
// is not given back, so put the one that holds up longest first. An Adaptive must be the last, since what comes behind it would count as
// the handler's time; it is a *ConfigError where it is not, or where a gate is nil.
func All(gates ...Gate) (Gate, error) {
	var problems []string
	for i, g := range gates {
		if a, ok := g.(*Adaptive); g == nil || ok && a == nil {
			problems = append(problems, fmt.Sprintf("gate %d of %d is nil", i+1, len(gates)))
		} else if ok && i < len(gates)-1 {
			problems = append(problems, fmt.Sprintf("gate %d of %d is an Adaptive: it has to be the last, or it takes the time that messages wait at the next for the handler's", i+1, len(gates)))
		}
	}
	if len(problems) > 0 {
		return nil, &ConfigError{Problems: problems}
	}
	return row(append([]Gate(nil), gates...)), nil
}

// row is the Gate that All makes.
type row []Gate

var errNotEntered = errors.New("limit: a later gate did not return")

// Enter implements Gate.
func (r row) Enter(ctx context.Context, m *ackfloor.Message) (leave func(error), err error) {
	var entered leaves
	err = errNotEntered // a panic, until it is known that there was none
	defer func() {
		if err != nil {
			entered.leave(err)
		}
	}()
	for _, g := range r {
		l, refused := g.Enter(ctx, m)
		if refused != nil {
			err = refused
			return nil, err
		}
		if l != nil {
			entered = append(entered, l)
		}
	}
	err = nil
	switch len(entered) {
	case 0:
		return nil, nil
	case 1:
		return entered[0], nil
	default:
		return entered.leave, nil
	}
}

// leaves are what is to be called when the handler has returned.
type leaves []func(error)

// leave calls all of them, the last first, also where one panics.
func (l leaves) leave(err error) {
	for _, f := range l {
		defer f(err)
	}
}

// ConfigError lists everything that is wrong with what a gate was told.
type ConfigError struct{ Problems []string }

func (e *ConfigError) Error() string {
	if len(e.Problems) == 1 {
		return "limit: configuration: " + e.Problems[0]
	}
	return fmt.Sprintf("limit: configuration: %d problems:\n  - %s", len(e.Problems), strings.Join(e.Problems, "\n  - "))
}

// ExitCode is 78, EX_CONFIG: starting again won't help.
func (e *ConfigError) ExitCode() int { return 78 }

// faults collects what is wrong with a configuration.
type faults []string

func (f *faults) check(ok bool, name string, value any, accepts string) {
	if !ok {
		*f = append(*f, fmt.Sprintf("%s is %v: it takes %s", name, value, accepts))
	}
}

// err is a *ConfigError, or nil.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return &ConfigError{Problems: f}
}
