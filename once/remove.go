package once

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ackfloor/ackfloor"
)

// Old records are removed by the calls that make new ones, behind their commit: nothing runs in the background that would have to be stopped. A call in a
// thousand has two queries more, or one a minute where messages are few.
const (
	removeBatch  = 1000        // records looked at in one removal
	removeRounds = 2           // removals in a row, so that a backlog shrinks
	removeEvery  = 1000        // messages
	removeAfter  = time.Minute // or so long
	removeWait   = time.Second // all of them may take
)

type consumer struct{ stream, name string }

// removals tells when one is due, for each consumer.
type removals struct {
	mu sync.Mutex
	of map[consumer]*removal
}

type removal struct {
	messages int // since the last
	last     time.Time
	running  bool
}

// begin tells whether a removal is due. Then end has to be called.
func (r *removals) begin(c consumer, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = make(map[consumer]*removal)
	}
	of := r.of[c]
	if of == nil { // the first message of a process, which may have no more than a few
		of = &removal{}
		r.of[c] = of
	}
	of.messages++
	if of.running || of.messages < removeEvery && now.Sub(of.last) < removeAfter {
		return false
	}
	of.running, of.messages, of.last = true, 0, now
	return true
}

func (r *removals) end(c consumer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[c].running = false
}

// tidy removes old records when that is due. It fails nothing: the message is done.
func (s *SQL) tidy(ctx context.Context, m *ackfloor.Message) {
	floor, ok := ackfloor.AckFloor(ctx)
	if !ok || ctx.Err() != nil {
		return
	}
	c, now := consumer{m.Stream, m.Consumer}, time.Now()
	if !s.removals.begin(c, now) {
		return
	}
	defer s.removals.end(c)
	ctx, cancel := context.WithTimeout(ctx, removeWait)
	defer cancel()
	for range removeRounds {
		n, more, err := s.remove(ctx, c, int64(floor), now.Add(-s.cfg.Keep))
		s.removed.Add(uint64(n))
		if err != nil {
			s.removalErrors.Add(1)
			if s.cfg.OnError != nil {
				s.cfg.OnError(fmt.Errorf("once: removing old records of consumer %q on stream %q from %s: %w", m.Consumer, m.Stream, s.cfg.Table, err))
			}
			return
		}
		if !more || n == 0 {
			return
		}
	}
}

// remove removes what is old among the records of the lowest sequences, one batch of them, so that it never reads more than it may remove.
func (s *SQL) remove(ctx context.Context, c consumer, floor int64, before time.Time) (n int64, more bool, err error) {
	bound := floor
	err = s.db.QueryRowContext(ctx, s.query.bound, c.stream, c.name, floor).Scan(&bound)
	if more = err == nil; err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, false, err
	}
	res, err := s.db.ExecContext(ctx, s.query.remove, c.stream, c.name, bound, before.UnixNano())
	if err == nil {
		n, err = res.RowsAffected()
	}
	return n, more, err
}
