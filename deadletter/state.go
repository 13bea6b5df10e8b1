package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/ackfloor/ackfloor/internal/wildcard"
)

// states is what tells the states of many letters.
type states struct {
	replays map[string]replayed // by subject
	floors  map[string]uint64   // by the filter of the consumer: all its replays up to here are settled
	newest  map[string]uint64   // by subject of a letter, its last one; nil where a subject has one at most
}

type replayed struct{ seq, of uint64 }

// states reads all replays once, and one consumer's state for each consumer that has some.
func (s *Store) states(ctx context.Context, f Filter, info description) (*states, error) {
	out := &states{replays: map[string]replayed{}, floors: map[string]uint64{}}
	direct, last := info.Config.AllowDirect, info.State.LastSeq
	for m, err := range s.c.walk(ctx, f.subject(replay), from{}, last, direct) {
		if err != nil {
			return nil, err
		}
		p, ok := parse(m.subject)
		if !ok {
			continue
		}
		out.replays[m.subject] = replayed{m.sequence, replayOf(m)}
		name := ReplayFilter(p.stream, p.consumer)
		if _, asked := out.floors[name]; !asked {
			floor, err := s.floor(ctx, p)
			if err != nil {
				return nil, err
			}
			out.floors[name] = floor
		}
	}
	if info.Config.MaxMsgsPerSubject == 1 {
		return out, nil
	}
	out.newest = map[string]uint64{}
	for m, err := range s.c.walk(ctx, f.subject(letter), from{}, last, direct) {
		if err != nil {
			return nil, err
		}
		out.newest[m.subject] = m.sequence
	}
	return out, nil
}

// replaced tells whether a letter's message failed again and has a newer one: the older is not there any more, but for streams that keep several
// messages a subject.
func (s *states) replaced(m *stored) bool { return s.newest != nil && s.newest[m.subject] > m.sequence }

func (s *states) of(l *Letter) State {
	r, ok := s.replays[l.at.as(replay).subject()]
	return stateOf(l, r, ok, s.floors[ReplayFilter(l.at.stream, l.at.consumer)])
}

// stateOf is the state of a letter that is the last on its subject.
func stateOf(l *Letter, r replayed, ok bool, floor uint64) State {
	switch {
	case !ok || l.Subject == "" || r.of != l.Sequence:
		return StateOpen
	case floor >= r.seq:
		return StateHandled
	}
	return StateReplaying
}

// state is the state of one letter, and the sequence of its replay, 0 without one.
func (s *Store) state(ctx context.Context, l *Letter) (State, uint64, error) {
	if l.Subject == "" {
		return StateOpen, 0, nil
	}
	m, err := s.c.lastOfLeader(ctx, l.at.as(replay).subject())
	if errors.Is(err, errNone) {
		return StateOpen, 0, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("deadletter: looking for the replay of letter %d: %w", l.Sequence, err)
	}
	r := replayed{m.sequence, replayOf(m)}
	if r.of != l.Sequence {
		return StateOpen, 0, nil
	}
	floor, err := s.floor(ctx, l.at)
	return stateOf(l, r, true, floor), r.seq, err
}

// floor is the sequence up to which a consumer has settled all replays. 0 where there is no such consumer yet, or its state may not be read:
// then none is known to be settled. The consumer of that name may be that of others' replays, as A_B and C share it with A and B_C.
func (s *Store) floor(ctx context.Context, of place) (uint64, error) {
	consumer := ReplayConsumer(of.stream, of.consumer)
	var info struct {
		Config struct {
			Filter string `json:"filter_subject"`
		} `json:"config"`
		AckFloor struct {
			Stream uint64 `json:"stream_seq"`
		} `json:"ack_floor"`
	}
	err := again(ctx, tries, func() error { return s.c.ask(ctx, "CONSUMER.INFO."+s.c.stream+"."+consumer, nil, &info) })
	var denied *PermissionError
	switch {
	case apiCode(err) == codeNoConsumer, errors.As(err, &denied):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("deadletter: looking at consumer %q of stream %q: %w", consumer, s.c.stream, err)
	}
	if f := info.Config.Filter; f != "" && !wildcard.Overlap(f, ReplayFilter(of.stream, of.consumer)) {
		return 0, nil
	}
	return info.AckFloor.Stream, nil
}

// replayOf is the letter that a replay is one of.
func replayOf(m *stored) uint64 {
	vs := m.header[hdrReplayOf]
	if len(vs) == 0 {
		return 0
	}
	n, _ := strconv.ParseUint(vs[0], 10, 64)
	return n
}
