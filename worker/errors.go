package worker

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
)

// ErrConsumerDeleted is returned by Run when the consumer, or its stream, was deleted under it, also when it was created
// again since: the cursor is gone, and going on would skip messages or handle all of them again. Nothing is re-created.
var ErrConsumerDeleted = errors.New("worker: the consumer was deleted")

// ErrBusy is returned by Run when another Runner of this process works on the same durable consumer already. Raise its
// concurrency, or use another process: processes share a durable.
var ErrBusy = errors.New("worker: another Runner of this process works on this consumer")

// errTurnedAway is how a replay's handler ends that was not called, since the grace was over before a slot was free.
var errTurnedAway = errors.New("worker: the drain's grace ended before a slot was free")

// ErrUsed is returned by Run when it was called before: a Runner runs once.
var ErrUsed = errors.New("worker: Run was called before on this Runner")

// ConfigError lists everything that is wrong with a configuration, whether in itself or against the consumer that it binds.
type ConfigError struct{ Problems []string }

func (e *ConfigError) Error() string {
	if len(e.Problems) == 1 {
		return "worker: configuration: " + e.Problems[0]
	}
	return fmt.Sprintf("worker: configuration: %d problems:\n  - %s", len(e.Problems), strings.Join(e.Problems, "\n  - "))
}

// ExitCode is 78, EX_CONFIG: starting again won't help.
func (e *ConfigError) ExitCode() int { return shutdown.ExitConfig }

// UnavailableError says what was not there when the start-up limit passed: the server, the stream or the consumer.
type UnavailableError struct {
	What   string        // such as `stream "EVENTS"`
	Waited time.Duration // how long
	Err    error         // the last answer
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("worker: %s was not available within %v: %v", e.What, e.Waited.Round(time.Millisecond), e.Err)
}

// Unwrap returns the last answer.
func (e *UnavailableError) Unwrap() error { return e.Err }

// ExitCode is 69, EX_UNAVAILABLE.
func (e *UnavailableError) ExitCode() int { return shutdown.ExitUnavailable }

// PermissionError says which subject the user of the connection lacks. The server does not answer a denied request; it
// reports it beside, which nats.go keeps in LastError (nats.go 1.55, processTransientError).
type PermissionError struct {
	Publish bool   // else subscribe
	Subject string // that was denied
	Allow   string // the subject to allow, as it goes into the server's configuration
	Err     error  // the server's words
}

func (e *PermissionError) Error() string {
	verb := "subscribe to"
	if e.Publish {
		verb = "publish to"
	}
	return fmt.Sprintf("worker: the user of this connection may not %s %q: allow %q", verb, e.Subject, e.Allow)
}

// Unwrap returns the server's words.
func (e *PermissionError) Unwrap() error { return e.Err }

// ExitCode is 69: the right may be granted while the supervisor tries again.
func (e *PermissionError) ExitCode() int { return shutdown.ExitUnavailable }

// DrainError is returned by Run when a drain was not a clean one: the grace ended while handlers were running, and what they held was handed
// back, or the server was away and settlements are not confirmed, so that their messages may come again.
type DrainError struct {
	Interrupted int        // handlers that ended when they were told to; their messages went back
	Abandoned   []HeldItem // messages of handlers that did not end; handed back too
	Unconfirmed int        // settlements without a confirmation
}

func (e *DrainError) Error() string {
	if e.Interrupted+len(e.Abandoned) == 0 {
		return fmt.Sprintf("worker: the drain ended with %d settlements unconfirmed: the server did not answer, their messages may come again", e.Unconfirmed)
	}
	if len(e.Abandoned) == 0 {
		return fmt.Sprintf("worker: the drain's grace ended with %d handlers running; their messages were handed back", e.Interrupted)
	}
	names := make([]string, 0, len(e.Abandoned))
	for _, h := range e.Abandoned {
		names = append(names, fmt.Sprintf("%q sequence %d", h.Subject, h.Sequence))
	}
	return fmt.Sprintf("worker: the drain's grace ended with %d handlers running, %d of which ignore their context (%s); their messages were handed back",
		e.Interrupted+len(e.Abandoned), len(e.Abandoned), strings.Join(names, ", "))
}

// ExitCode is 75, EX_TEMPFAIL.
func (e *DrainError) ExitCode() int { return shutdown.ExitGraceEnded }
