package deadletter

import (
	"context"
	"errors"
	"iter"
	"time"
)

// List returns the letters that are there now, oldest first. Looking changes nothing: no consumer is made, nothing is acknowledged. What is stored
// while it runs is not waited for. An error ends it, and comes with a nil letter.
//
// Letters come whole, but for the few that are stored in two parts: see Letter.Incomplete. About 4 MiB are read ahead.
func (s *Store) List(ctx context.Context, f Filter) iter.Seq2[*Letter, error] {
	return func(yield func(*Letter, error) bool) {
		if err := f.check(); err != nil {
			yield(nil, err)
			return
		}
		info, err := s.info(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		states, err := s.states(ctx, f, info)
		if err != nil {
			yield(nil, err)
			return
		}
		for m, err := range s.c.walk(ctx, f.subject(letter), from{time: f.Since}, info.State.LastSeq, info.Config.AllowDirect) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !isLetter(m.subject) || states.replaced(m) {
				continue
			}
			l := m.letter()
			l.State = states.of(l)
			if f.match(l) && !yield(l, nil) {
				return
			}
		}
	}
}

// watchEvery is how often Watch looks. It asks rather than subscribes: that leaves no consumer behind and goes on by itself when a connection or a
// server comes back.
const watchEvery = 500 * time.Millisecond

// Watch returns the letters that are stored from now on, within about half a second, until ctx ends. A server that does not answer is asked again
// for as long as it takes. An error, such as ErrNoStream when the stream is deleted, ends it and comes with a nil letter; the end of ctx is none.
func (s *Store) Watch(ctx context.Context, f Filter) iter.Seq2[*Letter, error] {
	return func(yield func(*Letter, error) bool) {
		if err := f.check(); err != nil {
			yield(nil, err)
			return
		}
		info, err := s.info(ctx)
		next := from{seq: info.State.LastSeq + 1}
		for err == nil && pause(ctx, watchEvery) == nil {
			if next.seq, err = s.watch(ctx, f, next, yield); next.seq == 0 {
				return
			}
		}
		if err != nil && ctx.Err() == nil {
			yield(nil, err)
		}
	}
}

// watch yields what is new, and returns where to go on, 0 if the caller has enough.
func (s *Store) watch(ctx context.Context, f Filter, next from, yield func(*Letter, error) bool) (uint64, error) {
	info, err := s.info(ctx)
	if err != nil {
		return next.seq, lasting(err)
	}
	if info.State.LastSeq+1 < next.seq {
		next.seq = 1 // the stream was made again
	}
	for m, err := range s.c.walk(ctx, f.subject(letter), next, info.State.LastSeq, info.Config.AllowDirect) {
		if err != nil {
			return next.seq, lasting(err)
		}
		next.seq = m.sequence + 1
		if !isLetter(m.subject) {
			continue
		}
		l := m.letter()
		l.State = StateOpen
		if f.match(l) && !yield(l, nil) {
			return 0, nil
		}
	}
	return max(next.seq, info.State.LastSeq+1), nil
}

// lasting drops an error that may pass.
func lasting(err error) error {
	if decided(err) || errors.Is(err, ErrNoStream) {
		return err
	}
	return nil
}
