package deadletter

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Writer stores letters. It may be used by several goroutines at once.
type Writer struct {
	c client
}

// NewWriter makes a Writer for the dead-letter stream c.Name. Of c it uses Name and APIPrefix; the rest is for Prepare, which should have
// been called before.
func NewWriter(nc *nats.Conn, c Config) *Writer {
	return &Writer{c: newClient(nc, c.Name, c.APIPrefix)}
}

// rounds bounds how often a Write meets another letter on its subject. Each is an answer, so something changed in between.
const rounds = 20

// Write stores a letter and returns nil when the server has confirmed it, or when the letter of that same message is there already. So it may
// be called again after any error, by any process, and there is one letter in the end. The letter of a replay that failed (Replays and ReplayOf
// say so) takes the place of the letter that was replayed.
//
// Errors wrap ErrNoStream, ErrFull, ErrReadOnly, ErrTaken, ErrTooLarge or a *PermissionError where it is one of these. A server that does not
// answer is asked again a few times, about ten seconds in all, or until ctx ends.
//
// Where the user of the connection may not read letters, a letter that is in the place is taken for that of the same message.
func (w *Writer) Write(ctx context.Context, l *Letter) error {
	if err := errors.Join(checkName("stream", l.Stream), checkName("consumer", l.Consumer)); err != nil {
		return err
	}
	if l.Subject == "" {
		return errors.New("deadletter: a letter without the subject of its message")
	}
	p, err := encode(l, w.c.nc.MaxPayload())
	if err != nil {
		return err
	}
	if err := w.c.storeRest(ctx, p); err != nil {
		return err
	}
	to := spot{place: place{kind: letter, stream: l.Stream, consumer: l.Consumer, seq: l.MessageSequence}, expected: l.ReplayOf}
	for range rounds {
		_, err := w.c.publish(ctx, to.subject(), allowWrite(to.place), p.header, p.data, to.expected)
		var other *conflict
		if !errors.As(err, &other) {
			return err
		}
		done, err := w.meet(ctx, l, &to, other.last)
		if done || err != nil {
			return err
		}
	}
	return fmt.Errorf("deadletter: %q changes all the time", to.subject())
}

// spot is where a letter is to go.
type spot struct {
	place
	expected uint64 // the sequence of what it takes the place of
	other    bool   // the first place, the one without a publish time, has another message's letter for sure
}

// allowWrite is what to allow for the letters of a consumer.
func allowWrite(at place) string {
	if at.kind == replay {
		return "replay." + at.stream + "." + at.consumer + ".>"
	}
	return "dlq." + at.stream + "." + at.consumer + ".>"
}

// meet decides what a letter does where another is, or where the one is not whose place it is to take: it is done, or tries again with
// another place or another expectation. last is the sequence of what is there.
func (w *Writer) meet(ctx context.Context, l *Letter, to *spot, last uint64) (done bool, err error) {
	there, err := w.c.last(ctx, to.subject())
	var denied *PermissionError
	switch {
	case errors.As(err, &denied):
		return meetBlind(l, to, last), nil
	case errors.Is(err, errNone) && to.expected == 0:
		return false, pause(ctx, between/4) // it was removed just now, or a replica is behind
	case errors.Is(err, errNone):
		to.expected = 0
		return false, nil
	case err != nil:
		return false, fmt.Errorf("deadletter: looking at the letter on %q: %w", to.subject(), err)
	}
	older, err := decode(there.subject, there.header, there.data)
	switch {
	case err == nil && older.Published.Equal(l.Published):
		to.expected = there.sequence
		return older.Replays >= l.Replays, nil
	case to.born == "":
		to.born, to.expected = born(l.Published), l.ReplayOf
		return false, nil
	case err == nil:
		err = errors.New("it says another time of publishing")
	}
	return false, fmt.Errorf("%w: what is on %q can't be the letter of that message: %w", ErrTaken, to.subject(), err)
}

// meetBlind is meet for a user who may not read: the sequences have to tell. A first letter can't know whether what is there is its own, and
// takes it for that.
func meetBlind(l *Letter, to *spot, last uint64) (done bool) {
	switch {
	case l.ReplayOf == 0:
		return true
	case to.born == "" && last == 0: // the letter that was replayed was removed
		to.expected = 0
		return false
	case to.born == "": // or it is not the one that was replayed: older for sure, or newer, so perhaps what this one became before
		to.born, to.expected, to.other = born(l.Published), l.ReplayOf, last < l.ReplayOf
		return false
	case last == 0 && to.other:
		to.expected = 0
		return false
	}
	return true
}

// storeRest stores the second part of a letter, if it has one. Its subject follows from the message, its bytes too: one that is there already
// is the same.
func (c client) storeRest(ctx context.Context, p parts) error {
	if p.restAt == "" {
		return nil
	}
	at, _ := parse(p.restAt)
	h := nats.Header{hdrTailOf: {at.as(letter).subject()}}
	_, err := c.publish(ctx, p.restAt, allowWrite(at), h, p.rest, 0)
	var there *conflict
	if errors.As(err, &there) {
		return nil
	}
	return err
}

// ReadReplay reads a message that the consumer ReplayConsumer delivered: its subject, headers and payload. The letter that it returns has the
// subject, headers, payload and sequence of the original message, which is what the handler is to see; ReplayOf is the letter that was
// replayed and Replays counts this replay. If the replay fails, write the letter with these two as they are.
//
// A message that is no replay is an error; it can't be handled, ever.
func ReadReplay(subject string, h nats.Header, data []byte) (*Letter, error) {
	l, err := decode(subject, h, data)
	if err != nil {
		return nil, err
	}
	if l.at.kind != replay || l.ReplayOf == 0 || l.Replays == 0 {
		return nil, fmt.Errorf("%w: %q is no replay", errForeign, subject)
	}
	return l, nil
}

// Complete fetches the part of a letter that is stored beside it, where there is one: see Letter.Incomplete. It needs the right to read,
// $JS.API.DIRECT.GET.<dead-letter stream>.dlq.<stream>.<consumer>.> or $JS.API.STREAM.MSG.GET.<dead-letter stream>. The error wraps ErrIncomplete
// if that part is gone for good.
func (w *Writer) Complete(ctx context.Context, l *Letter) error { return w.c.complete(ctx, l) }

func (c client) complete(ctx context.Context, l *Letter) error {
	if l.tail == nil {
		return nil
	}
	m, err := c.last(ctx, l.tail.subject)
	if errors.Is(err, errNone) {
		return fmt.Errorf("%w: %q, stream %q", ErrIncomplete, l.tail.subject, c.stream)
	}
	if err != nil {
		return fmt.Errorf("deadletter: fetching the rest of a large message: %w", err)
	}
	return l.attach(m.data)
}
