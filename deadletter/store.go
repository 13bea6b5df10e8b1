package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/internal/wildcard"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Store is a dead-letter stream as people and programs look at it. It may be used by several goroutines at once. Reading needs the rights to
// publish to $JS.API.STREAM.INFO.<stream>, $JS.API.DIRECT.GET.<stream> and $JS.API.STREAM.MSG.GET.<stream>, and for the states to
// $JS.API.CONSUMER.INFO.<stream>.*.
type Store struct {
	c client
}

// Open opens the dead-letter stream of that name. apiPrefix is that of the JetStream API, "" for "$JS.API.". The error wraps ErrNoStream when the
// stream is missing.
func Open(ctx context.Context, nc *nats.Conn, name, apiPrefix string) (*Store, error) {
	if err := checkName("stream", name); err != nil {
		return nil, err
	}
	s := &Store{c: newClient(nc, name, apiPrefix)}
	_, err := s.info(ctx)
	return s, err
}

// info reads the stream's configuration and how far it is.
func (s *Store) info(ctx context.Context) (description, error) {
	var d description
	err := again(ctx, tries, func() error { return s.c.ask(ctx, "STREAM.INFO."+s.c.stream, nil, &d) })
	switch {
	case apiCode(err) == codeNoStream:
		return d, fmt.Errorf("%w: stream %q does not exist", ErrNoStream, s.c.stream)
	case err != nil:
		return d, fmt.Errorf("deadletter: looking at stream %q: %w", s.c.stream, err)
	}
	return d, nil
}

// Filter says which letters are meant. The zero Filter means all; each field that is set narrows it.
type Filter struct {
	Stream   string    // of the message
	Consumer string    // that failed
	Subject  string    // of the message; * and > match as in a subscription
	Reason   string    // exactly, such as ReasonExhausted
	Error    string    // a part of the error
	State    State     // what has become of it
	Since    time.Time // the letter was stored then or later
	Until    time.Time // the letter was stored before
}

// check refuses what would be read as another subject than the one that is meant.
func (f Filter) check() error {
	var bad []error
	if f.Stream != "" {
		bad = append(bad, checkName("stream", f.Stream))
	}
	if f.Consumer != "" {
		bad = append(bad, checkName("consumer", f.Consumer))
	}
	return errors.Join(bad...)
}

// subject is the filter as far as the subjects of the stream tell.
func (f Filter) subject(kind string) string {
	if f.Consumer != "" {
		return kind + "." + orAny(f.Stream) + "." + f.Consumer + ".>"
	}
	if f.Stream != "" {
		return kind + "." + f.Stream + ".>"
	}
	return kind + ".>"
}

func orAny(name string) string {
	if name == "" {
		return "*"
	}
	return name
}

func (f Filter) match(l *Letter) bool {
	return (f.Stream == "" || f.Stream == l.Stream) && (f.Consumer == "" || f.Consumer == l.Consumer) &&
		(f.Subject == "" || wildcard.Covers(f.Subject, l.Subject)) && (f.Reason == "" || f.Reason == l.Reason) &&
		strings.Contains(l.Error, f.Error) && (f.State == "" || f.State == l.State) &&
		!l.Stored.Before(f.Since) && (f.Until.IsZero() || l.Stored.Before(f.Until))
}

// letter makes a letter of a stored message. What somebody else published there is one too, of which little is known: it has no Subject and
// can't be replayed.
func (m *stored) letter() *Letter {
	l, err := decode(m.subject, m.header, m.data)
	if err != nil {
		l = foreign(m.subject, m.header, m.data)
	}
	l.Sequence, l.Stored = m.sequence, m.time
	return l
}

// isLetter tells letters from the rests of large ones, and from replays.
func isLetter(subject string) bool {
	p, ok := parse(subject)
	if !ok {
		return strings.HasPrefix(subject, letter+".")
	}
	return p.kind == letter
}

// Get returns one letter, whole, with its state. seq is its sequence in the dead-letter stream. The error wraps ErrNotFound where there is no
// letter, and ErrIncomplete, beside the letter, where a part of it is gone.
func (s *Store) Get(ctx context.Context, seq uint64) (*Letter, error) {
	m, err := s.message(ctx, seq)
	if err != nil {
		return nil, err
	}
	l := m.letter()
	if l.State, _, err = s.state(ctx, l); err != nil {
		return nil, err
	}
	return l, s.c.complete(ctx, l)
}

// message reads a letter as it is stored.
func (s *Store) message(ctx context.Context, seq uint64) (*stored, error) {
	if seq == 0 { // the request would mean something else
		return nil, fmt.Errorf("%w: sequence 0", ErrNotFound)
	}
	m, err := s.c.at(ctx, seq)
	switch {
	case errors.Is(err, errNone):
		return nil, fmt.Errorf("%w: nothing has sequence %d in stream %q", ErrNotFound, seq, s.c.stream)
	case apiCode(err) == codeNoStream:
		return nil, fmt.Errorf("%w: stream %q does not exist", ErrNoStream, s.c.stream)
	case err != nil:
		return nil, fmt.Errorf("deadletter: reading sequence %d of stream %q: %w", seq, s.c.stream, err)
	case !isLetter(m.subject):
		return nil, fmt.Errorf("%w: sequence %d of stream %q is %q, not a letter", ErrNotFound, seq, s.c.stream, m.subject)
	}
	return m, nil
}

// Remove deletes a letter, and with it the rest of a large one and its replay if that has been settled. A replay that is still on its way is
// left alone: it is handled, and if it fails there is a letter again. Removing needs $JS.API.STREAM.MSG.DELETE.<stream>.
func (s *Store) Remove(ctx context.Context, seq uint64) error {
	m, err := s.message(ctx, seq)
	if err != nil {
		return err
	}
	l := m.letter()
	state, replayed, err := s.state(ctx, l)
	if err != nil {
		return err
	}
	// The letter goes first: who finds no replay finds no letter either, and does not replay it a second time.
	if err := s.remove(ctx, seq); err != nil {
		return err
	}
	if replayed > 0 && state == StateHandled {
		if err := s.remove(ctx, replayed); err != nil {
			return err
		}
	}
	if l.tail == nil || state == StateReplaying {
		return nil
	}
	r, err := s.c.lastOfLeader(ctx, l.tail.subject)
	if errors.Is(err, errNone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deadletter: removing the rest of letter %d: %w", seq, err)
	}
	return s.remove(ctx, r.sequence)
}

// remove deletes one message. One that is gone already is no error.
func (s *Store) remove(ctx context.Context, seq uint64) error {
	var done struct{}
	err := again(ctx, tries, func() error {
		return s.c.ask(ctx, "STREAM.MSG.DELETE."+s.c.stream, map[string]any{"seq": seq, "no_erase": true}, &done)
	})
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &api) && strings.Contains(api.Description, "no message found"):
		return nil
	case apiCode(err) == codeSealed, errors.As(err, &api) && strings.Contains(api.Description, "not permitted"):
		return fmt.Errorf("%w: removing sequence %d from %q: %w", ErrReadOnly, seq, s.c.stream, err)
	}
	return fmt.Errorf("deadletter: removing sequence %d from stream %q: %w", seq, s.c.stream, err)
}
