package deadletter

import (
	"context"
	"errors"
	"fmt"
)

// ReplayResult is what a Replay came to.
type ReplayResult struct {
	Sequence uint64 // of the replay in the dead-letter stream
	Already  bool   // the letter had been replayed before: nothing was done
}

// Replay sends a letter's message back to the consumer that failed, and to no other: it is stored in the dead-letter stream once more, on the
// subject that only the worker of that consumer pulls. The letter stays, as what the message's history is.
//
// A letter is replayed once, for ever, also when two people do it at the same moment; the second one is told so. If the replay fails, a new
// letter, with a sequence of its own, takes this one's place and may be replayed in turn.
//
// The error wraps ErrNotFound when the letter was removed or has been replaced, and ErrFull and the like as that of Writer.Write does. It needs the
// right to publish to replay.<stream>.<consumer>.>.
func (s *Store) Replay(ctx context.Context, l *Letter) (ReplayResult, error) {
	if l.at.kind != letter { // made by hand or read from elsewhere
		whole, err := s.Get(ctx, l.Sequence)
		if err != nil {
			return ReplayResult{}, err
		}
		l = whole
	}
	if l.Subject == "" {
		return ReplayResult{}, fmt.Errorf("%w: letter %d", errForeign, l.Sequence)
	}
	next := *l
	next.Replays, next.ReplayOf = l.Replays+1, l.Sequence
	p, err := encode(&next, s.c.nc.MaxPayload())
	if err != nil {
		return ReplayResult{}, err
	}
	to := l.at.as(replay)
	for range rounds {
		before, err := s.before(ctx, l)
		switch {
		case err != nil:
			return ReplayResult{}, err
		case before.of == l.Sequence:
			return ReplayResult{Sequence: before.seq, Already: true}, nil
		}
		if err := s.c.storeRest(ctx, p); err != nil {
			return ReplayResult{}, err
		}
		seq, err := s.c.publish(ctx, to.subject(), allowWrite(to), p.header, p.data, before.seq)
		var other *conflict
		if !errors.As(err, &other) {
			return ReplayResult{Sequence: seq}, err
		}
	}
	return ReplayResult{}, fmt.Errorf("deadletter: %q changes all the time", to.subject())
}

// before is the last replay on a letter's subject, of this letter or of the one whose place it took. It makes sure that the letter is still there.
//
// The order counts: Remove deletes a letter before its replay. So where the replay of a letter is not there because it was removed, the letter is
// not there either.
func (s *Store) before(ctx context.Context, l *Letter) (replayed, error) {
	var out replayed
	switch m, err := s.c.lastOfLeader(ctx, l.at.as(replay).subject()); {
	case err == nil:
		out = replayed{m.sequence, replayOf(m)}
	case !errors.Is(err, errNone):
		return out, fmt.Errorf("deadletter: looking for the replay of letter %d: %w", l.Sequence, err)
	}
	if out.of == l.Sequence {
		return out, nil
	}
	m, err := s.c.lastOfLeader(ctx, l.at.subject())
	switch {
	case errors.Is(err, errNone):
		return out, fmt.Errorf("%w: letter %d was removed", ErrNotFound, l.Sequence)
	case err != nil:
		return out, fmt.Errorf("deadletter: looking for letter %d: %w", l.Sequence, err)
	case m.sequence != l.Sequence:
		return out, fmt.Errorf("%w: letter %d was replaced by %d", ErrNotFound, l.Sequence, m.sequence)
	}
	return out, nil
}
