package deadletter

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ackfloor/ackfloor/internal/denied"
	"github.com/ackfloor/ackfloor/internal/wildcard"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What may be wrong with the dead-letter stream. The errors that wrap these name the subject and the stream.
var (
	// ErrNoStream says that no stream takes the letter: it is missing, or its server is not ready.
	ErrNoStream = errors.New("deadletter: no stream takes the dead letters")

	// ErrFull says that the stream, the account or the server has no room. Nothing that is kept is given up for a new letter.
	ErrFull = errors.New("deadletter: no room for the dead letter")

	// ErrReadOnly says that the stream takes nothing, or gives nothing up: it is sealed, a mirror, or denies deletes.
	ErrReadOnly = errors.New("deadletter: the dead-letter stream is read-only")

	// ErrTaken says that the subjects of the letters belong to another stream.
	ErrTaken = errors.New("deadletter: another stream takes the subjects of the dead letters")

	// ErrUnfit says that the dead-letter stream exists and is made in a way that would lose letters or hide them.
	ErrUnfit = errors.New("deadletter: the stream can't be used for dead letters")

	// ErrNotFound says that there is no such letter, or no longer.
	ErrNotFound = errors.New("deadletter: no such letter")
)

// PermissionError says which subject the user of the connection may not use. The server does not answer what it denies, it reports it beside,
// which nats.go keeps in LastError (nats.go 1.55, processTransientError).
type PermissionError struct {
	Subject   string // that was denied
	Allow     string // the subject to allow, as it goes into the server's configuration
	Subscribe bool   // else publish
	Err       error  // the server's words
}

func (e *PermissionError) Error() string {
	verb := "publish to"
	if e.Subscribe {
		verb = "subscribe to"
	}
	return fmt.Sprintf("deadletter: the user of this connection may not %s %q: allow %q", verb, e.Subject, e.Allow)
}

// Unwrap returns the server's words.
func (e *PermissionError) Unwrap() error { return e.Err }

// denial tells whether err, the last one of a connection, is about a subject that is needed here: one below allow, or an inbox.
func denial(nc *nats.Conn, err error, subject, allow string) *PermissionError {
	about, publish, ok := denied.Of(err)
	if !ok {
		return nil
	}
	d := &PermissionError{Subject: about, Subscribe: !publish, Err: err}
	if d.Subscribe {
		inboxes := denied.Inboxes(nc)
		if !strings.HasPrefix(d.Subject, inboxes) {
			return nil
		}
		d.Allow = inboxes + ">"
		return d
	}
	if d.Subject != subject && !wildcard.Covers(allow, d.Subject) {
		return nil
	}
	d.Allow = allow
	return d
}

// The codes of the JetStream API that mean something here (nats-server 2.15, errors.json).
const (
	codeAccountResources = 10002
	codeNotEnabled       = 10039
	codeResources        = 10023
	codeMemory           = 10028
	codeNoMessage        = 10037
	codeStorage          = 10047
	codeTooLarge         = 10054
	codeNameInUse        = 10058
	codeNoConsumer       = 10014
	codeNoStream         = 10059
	codeOtherStream      = 10060
	codeOverlap          = 10065
	codeLastSequence     = 10071
	codeStoreFailed      = 10077
	codeHeaderTooLarge   = 10097
	codeSealed           = 10109
	codeMaxBytes         = 10122
	codeUnderWay         = 10164 // another publish to that subject is not decided yet
)

// apiCode returns the code of an error of the API, else 0.
func apiCode(err error) int {
	var e *jetstream.APIError
	if errors.As(err, &e) {
		return int(e.ErrorCode)
	}
	return 0
}

// refused gives an answer to a publish the name that callers know.
func refused(subject, stream string, err error) error {
	known := error(nil)
	switch apiCode(err) {
	case codeOtherStream, codeOverlap:
		known = ErrTaken
	case codeAccountResources, codeResources, codeMemory, codeStorage, codeMaxBytes:
		known = ErrFull
	case codeStoreFailed:
		if strings.Contains(err.Error(), "maximum") { // bytes, messages, messages per subject
			known = ErrFull
		} else if strings.Contains(err.Error(), "large") {
			known = ErrTooLarge
		}
	case codeTooLarge, codeHeaderTooLarge:
		known = ErrTooLarge
	case codeSealed:
		known = ErrReadOnly
	case codeNoStream:
		known = ErrNoStream
	}
	if errors.Is(err, nats.ErrNoResponders) {
		known = ErrNoStream
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		known = ErrTooLarge
	}
	if known == nil {
		return fmt.Errorf("deadletter: %q, stream %q: %w", subject, stream, err)
	}
	return fmt.Errorf("%w: %q, stream %q: %w", known, subject, stream, err)
}
