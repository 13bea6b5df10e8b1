package breaker

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

// State is the state of a Breaker.
type State int

// The states; the package documentation says what happens in each.
const (
	Closed State = iota
	HalfOpen
	Open
)

func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case HalfOpen:
		return "half-open"
	case Open:
		return "open"
	default:
		return fmt.Sprintf("State(%d)", int(s))
	}
}

var states = map[circuitbreaker.State]State{circuitbreaker.ClosedState: Closed, circuitbreaker.HalfOpenState: HalfOpen, circuitbreaker.OpenState: Open}

// Change is what Config.OnChange is told.
type Change struct {
	From, To State
	Delay    time.Duration // to Open: until a trial
	Err      error         // to Open: the failure that opened it
}

// OpenError is what a call is refused with, inside an ackfloor.PauseError.
type OpenError struct {
	State State // Open, or HalfOpen while trials are under way
	Err   error // the failure that opened it, for people: it is another message's, so that errors.Is and errors.As don't look into it
}

func (e *OpenError) Error() string { return fmt.Sprintf("breaker: %v: %v", e.State, e.Err) }

// errNoReturn stands for the error of a call that has none.
var errNoReturn = errors.New("the handler panicked, or ended its goroutine")

// betweenTrials is the Pause of calls that come while trials are under way.
const betweenTrials = 250 * time.Millisecond

// permit is what a call has that may go to the handler.
type permit struct {
	round uint64
	trial bool // in the half-open state
}

// message is what tells one message from another.
type message struct {
	stream   string
	sequence uint64
}

// enter asks whether a call may go to the handler, and makes the refusal if not.
func (b *Breaker) enter() (permit, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// The circuit knows the first delay only: it asks for another where it runs the calls itself, which can't tell late answers.
	if b.opened > 0 && time.Now().Before(b.until) || !b.circuit.TryAcquirePermit() {
		return permit{}, ackfloor.Pause(b.waitLocked(), &OpenError{State: b.State(), Err: b.cause})
	}
	return permit{round: b.round, trial: b.opened > 0}, nil
}

// leave records a call, if the state is the one in which it began: a record in the half-open state also gives the circuit a trial back, so every
// trial is recorded, and nothing else is. It tells whether the breaker has opened since the call began, and how long to wait then.
func (b *Breaker) leave(p permit, s sign, m *ackfloor.Message, err error) (wait time.Duration, opened bool) {
	b.mu.Lock()
	defer b.unlock()
	switch {
	case p.round != b.round:
	case s == success:
		b.circuit.RecordSuccess()
	case p.trial, s == failure && b.newsLocked(message{m.Stream, m.Sequence}):
		if b.cause = err; err == nil {
			b.cause = errNoReturn
		}
		b.circuit.RecordFailure() // that of a trial opens it, and so ends the round
	}
	if opened = p.round != b.round; opened {
		wait = b.waitLocked()
	}
	return wait, opened
}

// newsLocked tells whether a message is not among those that failed last, and has it be.
func (b *Breaker) newsLocked(m message) bool {
	switch n := cap(b.failed); {
	case slices.Contains(b.failed, m):
		return false
	case len(b.failed) < n:
		b.failed = append(b.failed, m)
	case n > 0:
		b.failed[b.oldest] = m
		b.oldest = (b.oldest + 1) % n
	}
	return true
}

// waitLocked is how long until a call may pass, as far as is known.
func (b *Breaker) waitLocked() time.Duration {
	switch b.State() {
	case Open:
		return time.Until(b.until)
	case HalfOpen:
		return betweenTrials
	default:
		return 0 // a Pause takes 100 ms then
	}
}

// changed is called by the circuit, under mu, in each change of its state.
func (b *Breaker) changed(e circuitbreaker.StateChangedEvent) {
	b.round++
	b.failed, b.oldest = b.failed[:0], 0
	c := Change{From: states[e.OldState], To: states[e.NewState]}
	switch c.To {
	case Closed:
		b.opened = 0
	case Open:
		c.Delay, c.Err = b.cfg.delay(b.opened), b.cause
		b.until = time.Now().Add(c.Delay)
		b.opened++
	}
	if b.cfg.OnChange != nil {
		b.changes = append(b.changes, c)
	}
}

// delay is Delay, doubled n times up to MaxDelay.
func (c Config) delay(n int) time.Duration {
	if c.Delay > c.MaxDelay>>n { // compared so that nothing overflows
		return c.MaxDelay
	}
	return c.Delay << n
}

// tell tells OnChange what it has not been told.
func (b *Breaker) tell() {
	b.mu.Lock()
	b.unlock()
}

// unlock is mu.Unlock, and tells OnChange before. One call at a time does, without the lock: another that makes a change
// meanwhile leaves it to that one.
func (b *Breaker) unlock() {
	defer b.mu.Unlock()
	if b.telling {
		return
	}
	for b.telling = true; len(b.changes) > 0; {
		c := b.changes[0]
		b.changes = b.changes[1:]
		b.tellOne(c)
	}
	b.telling = false
}

// tellOne calls OnChange without the lock, and has it again however that ends.
func (b *Breaker) tellOne(c Change) {
	b.mu.Unlock()
	returned := false
	defer func() {
		b.mu.Lock()
		b.telling = returned // what is left is told by the next call
	}()
	b.cfg.OnChange(c)
	returned = true
}
