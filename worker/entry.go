package worker

import (
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
)

// entry is what is to be done for one message before it is settled, or instead.
type entry struct {
	d      *delivery // kept, or handed back; nil where there is nothing to settle
	seq    uint64
	v      verdict
	err    error
	record record             // what is known of it
	read   bool               // record was read from the bucket, or this is the first delivery
	change func(*record)      // what is to be written; nil: nothing
	forget bool               // the record is to be deleted
	letter *deadletter.Letter // to be written; nil: none
	now    bool               // it is the one that is tried while letters can't be written
	back   bool               // it is not held any more: handed back,
	reply  string             // on this reply subject
}

func unchanged(*record) {}

// entryOf begins an entry with what is known of a message.
func (r *Runner) entryOf(d *delivery, v verdict, err error) *entry {
	e := &entry{d: d, seq: d.msg.Sequence, v: v, err: err, read: true}
	r.buf.mu.Lock()
	if d.past != nil { // a slot may be finding it out
		e.record, e.read = d.past.record, d.past.known
	}
	e.record.Published, e.record.Known = d.published(), d.deliveriesLocked()
	r.buf.mu.Unlock()
	e.record.Consumer = r.records.born
	return e
}

// entryFor tells what has to be written down before a message is settled whose handler has ended; nil: nothing.
func (r *Runner) entryFor(d *delivery, v verdict, err error) *entry {
	switch { // what is done a hundred thousand times a second is told first
	case v.kind == acked, v.kind == retried && !r.records.kept(), v.kind == givenUp && r.letters == nil, v.kind == returned && (d.past == nil || !r.records.kept()):
		return nil
	}
	e := r.entryOf(d, v, err)
	switch v.kind {
	case retried, givenUp:
		at, text := time.Now(), shortError(err)
		e.change = func(rec *record) {
			rec.failed(at, v.reason, text)
			if v.kind == givenUp {
				rec.Verdict = v.reason
			} else if r.buf.lanes != nil { // the server is not told of the delay: see inOrder
				rec.Until = at.Add(v.delay)
			}
		}
	case returned:
		e.change = unchanged // it did not die, nor get lost: another return or two, and it would be suspected
	default:
		return nil
	}
	if v.kind == givenUp && !r.addLetter(e) {
		return nil
	}
	return e
}

// addLetter makes the dead letter of an entry. It returns false where there can be none.
func (r *Runner) addLetter(e *entry) bool {
	rec := e.record
	e.change(&rec)
	e.letter = r.letter(e.d, e.v, &rec)
	e.v.letter = e.letter != nil
	return e.v.letter
}

// keep has something written down before a message is settled. It returns false where the message is no longer ours.
func (r *Runner) keep(e *entry, now time.Duration) bool {
	b := r.buf
	b.mu.Lock()
	ours := b.keepLocked(e.d, now)
	e.d.stampDue = min(e.d.stampDue, now+min(stampEarly, r.leaseTime()/3))
	due := e.d.stampDue
	r.unlockAsking(e.d, now)
	r.leases.by(due)
	if ours {
		r.books.add(e)
	}
	return ours
}

// handBack gives a message back that no handler has ended. Of one that had been delivered before it is written down first that this
// delivery is accounted for: it was neither lost, nor the death of a process.
func (r *Runner) handBack(d *delivery, reply string, delay time.Duration) {
	v := verdict{kind: returned, delay: delay}
	if d.past != nil && r.records.kept() {
		e := r.entryOf(d, v, nil)
		e.change, e.back, e.reply = unchanged, true, reply
		if r.books.add(e) {
			return
		}
	}
	r.send(d, reply, v, r.clock.now())
}

// notDead takes the mark of a suspect back whose process lives, though another worker has it by now.
func (r *Runner) notDead(d *delivery) {
	if e := r.living(d); e != nil {
		r.books.add(e)
	}
}

// living is what is to be written of a suspect whose process lives; nil where there is no mark to take back.
func (r *Runner) living(d *delivery) *entry {
	if d.past == nil || !d.past.marked {
		return nil
	}
	e := r.entryOf(d, verdict{}, nil)
	e.d, e.change = nil, unchanged
	return e
}

// noteTimeout writes down that an attempt has taken too long, since a handler that hangs does not return to tell.
func (r *Runner) noteTimeout(d *delivery) {
	if e := r.entryFor(d, verdict{kind: retried, reason: deadletter.ReasonTimedOut}, ackfloor.ErrHandleTimeout); e != nil {
		e.d = nil
		r.books.add(e)
	}
}
