package worker

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/nats-io/nats.go"
)

// One goroutine at a time reads what arrives on the pull subscription. It takes messages in and wakes slots for them; where handlers are
// so fast that waking one costs more than the call, it calls the handler itself. A handler that then takes long all the same does
// not hold up what arrives: after a moment another goroutine goes on reading, and the first ends behind its handler. (The Go
// scheduler does the same with a processor whose goroutine is in a system call.)
type reader struct {
	in     chan *nats.Msg // what has arrived and is not read
	alarm  *alarm         // of the loop that sees to it that reading goes on
	marked chan struct{}  // a token when a mark was read
	over   chan struct{}  // closed when reading has ended
	turns  atomic.Uint64  // how often a readTurn was read

	// guarded by buffer.mu
	within *delivery     // whose handler the goroutine that reads has called; nil: none
	since  time.Duration // when it called one last
}

const (
	fastHandler = 5 * time.Microsecond // time that handlers typically take below which the reader calls them itself
	inlineLimit = 2 * time.Millisecond // after which another goroutine goes on reading
	stayAwake   = 50 * inlineLimit     // how long the loop that sees to it looks for that behind the last call: waking it costs more than looking
)

// What the reader finds among the messages, put there by us.
var (
	readMark = &nats.Msg{Subject: "mark"} // tell that everything before it was read
	readEnd  = &nats.Msg{Subject: "end"}  // end reading
	readTurn = &nats.Msg{Subject: "turn"} // tell that reading goes on
)

// newReader makes room for all that may arrive: what was asked for, twice, since an answer that was lost may be asked for again, and statuses.
// nats.go drops what has no room.
func newReader(c Config) reader {
	room := 2*(c.Concurrency+max(c.Prefetch, prefetchMax)) + 1024
	return reader{in: make(chan *nats.Msg, room), alarm: newAlarm(), marked: make(chan struct{}, 1), over: make(chan struct{})}
}

// read reads until it is another goroutine's turn, or the end.
func (r *Runner) read() {
	defer func() {
		if p := recover(); p != nil {
			r.fail(fmt.Errorf("worker: reading failed: %w", &ackfloor.PanicError{Value: p, Stack: debug.Stack()}))
			close(r.reader.over)
		}
	}()
	var now time.Duration // when the last handler returned, if the next message was there already: the clock is read once a message
	for m := range r.reader.in {
		switch m {
		case readMark:
			r.buf.wake()
			r.reader.marked <- struct{}{}
		case readTurn:
			r.reader.turns.Add(1)
		case readEnd:
			close(r.reader.over)
			return
		default:
			r.at("read")
			d := r.onPulled(m, now)
			now = 0
			if d == nil {
				continue
			}
			r.counters.insideReader.Add(1)
			now = r.handle(d)
			if d.passed { // the handler took long: another reads
				return
			}
			if len(r.reader.in) == 0 {
				now = 0 // what comes next comes later
			}
		}
	}
}

// inlineLocked tells whether the reader should call the handler for a new message itself, and if so marks it as running.
func (r *Runner) inlineLocked(d *delivery, now time.Duration) bool {
	b := r.buf
	if d.past != nil || b.special || r.inSlotsOnly() || b.typical == 0 || b.typical >= fastHandler || b.closed || b.queue.len() > 0 || b.running >= r.cfg.Concurrency {
		return false
	}
	r.slots.Add(1) // b is not closed, so the slots have not ended and nobody waits for zero yet
	b.running++
	d.startLocked(now, b.limit)
	d.inline = true
	r.reader.within, r.reader.since = d, now
	return true
}

// tendReader gives the turn to another goroutine where the one that reads is in a handler for long.
func (r *Runner) tendReader(now time.Duration) time.Duration {
	r.buf.mu.Lock()
	defer r.buf.mu.Unlock()
	if r.reader.within == nil {
		if now < r.reader.since+stayAwake {
			return now + inlineLimit
		}
		return never
	}
	if limit := r.reader.since + inlineLimit; now < limit {
		return limit
	}
	r.reader.within.passed = true
	r.reader.within = nil
	go r.read()
	return now + inlineLimit
}

// readAll waits until everything that has arrived by now was read, or done is closed.
func (r *Runner) readAll(done <-chan time.Time) {
	select {
	case r.reader.in <- readMark:
	case <-done:
		return
	}
	select {
	case <-r.reader.marked:
	case <-r.reader.over:
	case <-done:
	}
}

// endReading ends the goroutine that reads.
func (r *Runner) endReading() {
	select {
	case r.reader.in <- readEnd:
	case <-r.reader.over: // it has failed
	}
	<-r.reader.over
}
