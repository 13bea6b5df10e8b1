package worker

import (
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/zap"
)

// Settled tells that a message was settled at the server.
type Settled struct {
	Sequence  uint64    // in the stream
	Kind      string    // ack, nak or term
	Sent      time.Time // first; of acks that one answer confirms together, when the last one of them was, so a few milliseconds late at the most
	Confirmed time.Time // when the server had confirmed it; zero where that is not known: WORKER_ACK=send, or the delivery was forgotten and its message comes back
	Tries     int       // how often it was sent
}

// OnSettled has f called for each settlement once the server has confirmed it, in no order; for tracing, or for tests. f is called by the goroutine that
// takes the answers, and by others at the same time: it must not wait for anything, or nothing is confirmed any more. There is one f: a second takes the place of the first, and nil takes
// it away, at any time. What is replayed from the dead letters is not told.
func (r *Runner) OnSettled(f func(Settled)) {
	if f == nil {
		r.conf.told.Store(nil)
		return
	}
	guarded := func(s Settled) {
		defer func() {
			if p := recover(); p != nil {
				r.counters.panics.Add(1)
				r.log.Error("the function of OnSettled panicked", zap.String("panic", shown(fmt.Sprint(p))), zap.ByteString("stack", debug.Stack()))
			}
		}()
		f(s)
	}
	r.conf.told.Store(&guarded)
}

// noteLocked keeps the end of a settlement, and of its run, for unlockTelling.
func (c *confirmer) noteLocked(s *settlement, confirmed bool) {
	if c.told.Load() == nil {
		return
	}
	one := Settled{Sequence: s.seq, Kind: kindOf(s.body), Sent: c.clock.base.Add(s.first), Tries: s.tries}
	if confirmed {
		one.Confirmed = c.clock.base.Add(c.clock.now())
	}
	c.notes = append(c.notes, one)
	for _, a := range s.run { // also where a term closes it
		one.Sequence, one.Kind = a.seq, "ack"
		c.notes = append(c.notes, one)
	}
}

// unlockTelling unlocks c.mu, and tells what was noted.
func (c *confirmer) unlockTelling() {
	notes := c.notes
	c.notes = nil
	c.mu.Unlock()
	if f := c.told.Load(); f != nil {
		for _, n := range notes {
			(*f)(n)
		}
	}
}

// tellSent tells of a settlement that nobody confirms.
func (c *confirmer) tellSent(seq uint64, body []byte, now time.Duration) {
	if f := c.told.Load(); f != nil {
		(*f)(Settled{Sequence: seq, Kind: kindOf(body), Sent: c.clock.base.Add(now), Tries: 1})
	}
}

func kindOf(body []byte) string {
	switch {
	case body[0] == '-':
		return "nak"
	case body[1] == 'T':
		return "term"
	}
	return "ack"
}
