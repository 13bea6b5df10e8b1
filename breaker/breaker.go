// Package breaker is a circuit breaker around a Handler. When what the handler needs is out, a database or a provider, it stops calling
// the handler and answers ackfloor.Pause in its place: the worker keeps what it holds under lease, pulls no more, and tries one
// message when the delay has passed. No attempt is charged meanwhile, and nothing reaches the dead letters for the outage's sake.
//
//	db, err := breaker.New(breaker.Config{})
//	…
//	h = ackfloor.Chain(h, db.Wrap)
//
// # States
//
// Closed: every call goes to the handler, and failures are counted. When enough messages have failed (see Config) it opens.
//
// Open: no call goes to the handler. When the delay has passed, the next call is a trial.
//
// Half-open: trials are under way, Config.Successes at the most; other calls are answered with a short Pause. As many successes
// close it, one failure opens it again. It passes into this state with the first trial, so that an open one stays open for as long as no call comes.
//
// # What counts
//
//	nil, or an error that Config.Counts refuses       a success
//	an error that Config.Counts takes (see Outage)    a failure
//	a panic, runtime.Goexit                           a failure
//	a Pause of the handler itself                     nothing; as a trial a failure
//	an error when the context has ended with          nothing; as a trial a failure
//	ErrStopping or ErrLeaseLost
//
// A trial whose context ends before its handler returns has failed at that moment: a handler that hangs must not hold up the
// rest for ever. Calls that began in an earlier state count for nothing in the present one.
//
// # What comes back
//
// The failure that opens the breaker, and those of calls that were under way when it opened, come back as a Pause around
// the handler's error, so that from that moment on no attempt is charged; the failures before it are ordinary ones. Marked errors keep
// what they ask for: Permanent wins over Pause. Panics go through unchanged, so they are charged; and so is an attempt that ended by the handle
// timeout, whatever it returns, since a worker can't keep its message: give what you call a shorter timeout of its own. A
// handler's own Pause, and the errors of interrupted handlers, go through unchanged too.
//
// The states are those of github.com/failsafe-go/failsafe-go, to which this package is an adapter.
package breaker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

// Breaker is a circuit breaker. Use one for each thing that can be out: it may wrap several handlers, of several Runners, which then
// pause together. Make one with New.
type Breaker struct {
	cfg     Config
	circuit circuitbreaker.CircuitBreaker[any] // called under mu, but for its state

	mu      sync.Mutex
	round   uint64    // grows with each change of state: what began in another round counts no more
	opened  int       // times that it opened since it was closed; 0 means that it is closed
	until   time.Time // when a trial may pass
	cause   error     // what the last recorded failure was
	failed  []message // whose failures were recorded last in this round, a ring
	oldest  int       // in failed
	changes []Change  // that OnChange has not been told yet
	telling bool      // a call is telling them
}

// New makes a Breaker, closed. A wrong Config is reported as a *ConfigError, with all its faults.
func New(cfg Config) (*Breaker, error) {
	cfg = cfg.withDefaults()
	if problems := cfg.problems(); len(problems) > 0 {
		return nil, &ConfigError{Problems: problems}
	}
	b := &Breaker{cfg: cfg, failed: make([]message, 0, cfg.others())}
	b.circuit = cfg.circuit(b.changed)
	return b, nil
}

// Wrap is an ackfloor.Middleware. What is inside of it runs only where the handler does; what is outside, for calls that are refused too.
func (b *Breaker) Wrap(h ackfloor.Handler) ackfloor.Handler {
	return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error { return b.handle(ctx, m, h) })
}

// State is the state at this moment.
func (b *Breaker) State() State { return states[b.circuit.State()] }

// handle is one call. Whatever it does, return, panic, or end its goroutine, it leaves, or a trial would never end.
func (b *Breaker) handle(ctx context.Context, m *ackfloor.Message, h ackfloor.Handler) (err error) {
	p, refused := b.enter()
	if refused != nil {
		return refused
	}
	s := failure // unless it returns
	defer func() {
		if wait, opened := b.leave(p, s, m, err); opened && s == failure {
			err = ackfloor.Pause(wait, err)
		}
	}()
	if p.trial {
		b.tell() // only now, since OnChange may panic
		defer b.watch(ctx, p, m)()
	}
	err = h.Handle(ctx, m)
	s = b.sign(ctx, err)
	return err
}

// sign is what a call says of what it needed.
type sign int

const (
	failure sign = iota
	success
	none
)

// sign reads an answer. It calls code of the user, Counts and methods of errors, and where that panics the call is a failure.
func (b *Breaker) sign(ctx context.Context, err error) sign {
	if err == nil {
		return success
	}
	if ctx.Err() != nil { // asked first: the cause may cost a context
		if cause := context.Cause(ctx); errors.Is(cause, ackfloor.ErrStopping) || errors.Is(cause, ackfloor.ErrLeaseLost) {
			return none
		}
	}
	if _, ok := errors.AsType[*ackfloor.PauseError](err); ok {
		return none
	}
	if b.cfg.Counts(err) {
		return failure
	}
	return success
}

// watch has a trial fail when its context ends. What it returns ends the watch; a trial that leaves afterwards leaves once.
func (b *Breaker) watch(ctx context.Context, p permit, m *ackfloor.Message) (end func()) {
	stop := context.AfterFunc(ctx, func() {
		defer func() { _ = recover() }() // of OnChange: here it would end the process
		b.leave(p, none, m, context.Cause(ctx))
	})
	return func() { stop() }
}
