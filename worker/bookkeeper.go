package worker

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Some outcomes have to be written down before the server is told: a failure, so that the next worker knows of the attempt; a message
// that is given up, as a dead letter. Meanwhile the message is kept: held, under lease, in nobody's slot.

const (
	bookWriters  = 16                     // entries that are written at once
	letterWait   = 5 * time.Second        // for one dead letter to be confirmed
	letterAgain  = 250 * time.Millisecond // after a dead letter that could not be written; doubled
	letterLatest = 5 * time.Second        // up to this
	keptMost     = 256                    // messages kept for dead letters that can't be written, or a quarter of max_ack_pending; others go back, and come again
	keptAgain    = 30 * time.Second       // after this
	sayAgain     = time.Minute            // that dead letters can't be written
)

// bookkeeper does what has to be written down. While dead letters can't be written, one is tried at a time.
type bookkeeper struct {
	mu     sync.Mutex
	more   sync.Cond
	ready  []*entry
	later  []*entry // their letters could not be written
	busy   int
	closed bool
	done   chan struct{} // a token when there is nothing left to do now
	alarm  *alarm
	next   time.Duration // when one of later is tried, while failed is set
	wait   time.Duration
	failed error // why the last letter could not be written; nil: it could
	said   time.Duration
}

func newBookkeeper() *bookkeeper {
	b := &bookkeeper{done: make(chan struct{}, 1), alarm: newAlarm()}
	b.more.L = &b.mu
	return b
}

// add has an entry done. It returns false where nothing is done any more.
func (b *bookkeeper) add(e *entry) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.ready = append(b.ready, e)
	b.more.Signal()
	return true
}

// write does what is to be done until the bookkeeper is closed. What ctx ends is what can't be waited for any longer.
func (r *Runner) write(ctx context.Context) {
	b := r.books
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		for len(b.ready) == 0 && !b.closed {
			b.more.Wait()
		}
		if len(b.ready) == 0 {
			return
		}
		e := b.ready[0]
		b.ready[0], b.ready = nil, b.ready[1:]
		wait := e.letter != nil && !e.now && b.failed != nil
		e.now = false
		b.busy++
		b.mu.Unlock()
		err := r.writeDown(ctx, e, wait)
		b.mu.Lock()
		b.busy--
		switch {
		case err != nil:
			r.failedLocked(e, err)
		case wait && b.failed == nil: // meanwhile another letter could be written
			b.ready = append(b.ready, e)
		case wait:
			r.laterLocked(e)
		case e.letter != nil:
			r.wroteLetterLocked()
		}
		if len(b.ready)+b.busy == 0 {
			select {
			case b.done <- struct{}{}:
			default:
			}
		}
	}
}

func (b *bookkeeper) emptyLocked() bool { return len(b.ready)+len(b.later)+b.busy == 0 }

// writeDown writes the record, then the letter, then settles. With wait it leaves the letter for later. The error is the letter's.
func (r *Runner) writeDown(ctx context.Context, e *entry, wait bool) error {
	r.writeRecord(ctx, e)
	if wait {
		return nil
	}
	if e.letter != nil {
		if err := r.writeLetter(ctx, e); err != nil {
			return err
		}
	}
	if e.d != nil {
		r.settleKept(e)
	}
	return nil
}

// writeRecord writes what is known of a message by now. Where what was known before could not be read yet, it is read first: another worker's word must not be
// forgotten.
func (r *Runner) writeRecord(ctx context.Context, e *entry) {
	if e.change == nil && !e.forget {
		return
	}
	var rec *record
	if !e.forget {
		known := e.record
		if !e.read {
			before, can := r.records.read(ctx, r.clock, e.seq, known.Published)
			if can != recordRead {
				if err := r.records.unread.Swap(nil); err != nil {
					r.sayBroken(e.seq, *err)
				}
				return
			}
			before.Known = known.Known
			known = before
		}
		e.change(&known)
		e.record, e.read = known, true
		rec = &known
	}
	e.change, e.forget = nil, false
	err := r.records.write(ctx, r.clock, e.seq, rec)
	if err == nil && rec != nil && r.records.broken.Load() == 0 {
		r.records.remember(e.seq, *rec)
	}
	if err != nil {
		if denied := r.denied("$KV." + r.cfg.Records + "." + r.records.key(e.seq)); denied != nil {
			err = denied
		}
		r.sayBroken(e.seq, err)
	}
}

func (r *Runner) sayBroken(seq uint64, err error) {
	r.log.Warn("a record could not be written: until one can, attempts count as far as they are known, and after a minute as the server's deliveries",
		zap.String("bucket", r.cfg.Records), zap.Uint64("sequence", seq), zap.String("error", shown(err.Error())))
}

// released takes a message that was kept out of the held set, and asks for more where that makes room.
func (r *Runner) released(d *delivery, forGood bool, now time.Duration) (reply string, gone bool) {
	r.buf.mu.Lock()
	reply, gone = r.buf.releaseLocked(d, now, forGood)
	r.unlockAsking(d, now)
	return reply, gone
}

// settleKept tells the server what became of a message, now that it is written down.
func (r *Runner) settleKept(e *entry) {
	now := r.clock.now()
	if e.back {
		r.send(e.d, e.reply, e.v, now)
		return
	}
	if e.v.kind == retried && r.retryHere(e.d, e.v, e.record, e.read, e.err) {
		return
	}
	reply, gone := r.released(e.d, e.v.kind == givenUp, now)
	v := r.inOrder(e.v)
	switch {
	case !gone:
	case e.letter == nil:
		v = verdict{kind: late}
	default:
		// The letter is there. Whoever has the message by now finds it there too, and counts it; this one says so first.
		r.log.Warn("the lease was lost before the dead letter was written", describe(e.d)...)
		r.tell(e.d, reply, v, now)
		return
	}
	r.logFailure(e.d, v, e.err)
	r.send(e.d, reply, v, now)
}

// closeBooks waits until everything is written down, hands back what could not be, and ends the writers.
func (r *Runner) closeBooks(graceEnd time.Duration) {
	b := r.books
	wait := max(graceEnd-r.clock.now(), 0) + confirmWait
	if r.failed() != nil {
		wait = failedGrace
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	over := false
	for {
		b.mu.Lock()
		for _, e := range b.later { // they were tried
			b.putOffLocked(e, 0)
		}
		b.later = nil
		if b.emptyLocked() || over {
			b.ready, b.closed = nil, true
			b.more.Broadcast()
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		select {
		case <-b.done:
		case <-limit.C:
			over = true
		}
	}
}
