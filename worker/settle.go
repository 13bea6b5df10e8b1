package worker

import (
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"go.uber.org/zap"
)

// settle decides what becomes of a message whose handler has returned, takes it out of the held set and tells the server. It is, with
// send, the only place where an ack, a nak or a term leaves.
func (r *Runner) settle(d *delivery, err error, now time.Duration) {
	o := outcome{err: err, cause: d.attempt.returned(now), attempt: d.msg.Attempt}
	if err != nil {
		o.age = time.Since(d.msg.Published)
	}
	v := r.judged(o)
	if v.kind == paused {
		if r.pauseFor(d, v.delay, err, now) {
			return
		}
		v = verdict{kind: returned}
	}
	if v.kind == returned {
		r.counters.interrupted.Add(1)
	}
	e := r.entryFor(d, v, err)
	if d.past != nil && d.past.marked {
		r.unmark(d, v, e)
	}
	if e != nil {
		if r.keep(e, now) {
			return
		}
		v = verdict{kind: late} // keep has taken it out
		r.notDead(d)
		r.logFailure(d, v, err)
		r.send(d, "", v, now)
		return
	}
	if v.kind == retried && r.retryHere(d, v, record{}, false, err) {
		return
	}
	v = r.inOrder(v)
	reply, gone := r.finish(d, now, v.kind == acked || v.kind == givenUp)
	if gone && v.kind != acked {
		v = verdict{kind: late} // handed back, or its lease is lost
	}
	if v.kind == late {
		r.notDead(d)
	}
	if v.kind != acked {
		r.logFailure(d, v, err)
	} else if gone {
		r.counters.late.Add(1)
		r.log.Warn("done, but late: the lease was lost before the handler returned; another worker may have handled it too", describe(d)...)
	}
	r.send(d, reply, v, now)
}

// inOrder leaves out the delay of a message that is given back where keys are kept in order: what comes later must not overtake it.
func (r *Runner) inOrder(v verdict) verdict {
	if r.buf.lanes != nil && v.kind == retried {
		v.delay = 0
	}
	return v
}

// unmark takes the mark of a suspect away while it is still alone: what runs next may kill the process, and that would be counted against the suspect.
func (r *Runner) unmark(d *delivery, v verdict, e *entry) {
	switch {
	case v.kind == acked:
		r.writeRecord(r.values, &entry{seq: d.msg.Sequence, forget: true})
	case e != nil:
		r.writeRecord(r.values, e)
	}
}

// finish takes a message whose handler has returned out of the held set, and has the pull loop ask for more where there is room.
func (r *Runner) finish(d *delivery, now time.Duration, forGood bool) (reply string, gone bool) {
	r.buf.mu.Lock()
	reply, gone = r.buf.finishLocked(d, now, forGood)
	r.unlockAsking(d, now)
	return reply, gone
}

// unlockAsking unlocks the held set behind a message that has left its slot, or what it was kept for: it asks for more where that made room, and tells of
// a pause that it has ended.
func (r *Runner) unlockAsking(d *delivery, now time.Duration) {
	if r.reader.within == d {
		r.reader.within = nil
	}
	ask, room := r.askLocked(now)
	over := r.buf.resumed
	r.buf.resumed = nil
	stuck := r.buf.closed && r.buf.behindLocked() > 0
	r.buf.mu.Unlock()
	if stuck {
		r.handBackStuck()
	}
	if room {
		r.post(ask)
	}
	r.sayResumed(over, now)
}

// countGivenUp counts a message that is given up.
func (r *Runner) countGivenUp(v verdict) {
	if v.letter {
		r.counters.deadLettered.Add(1)
	} else {
		r.counters.terminated.Add(1)
	}
	if v.reason == deadletter.ReasonExhausted || v.reason == deadletter.ReasonTimedOut {
		r.counters.exhausted.Add(1)
	}
}

// send tells the server a verdict. Nothing here uses a context, so that nothing which ends a handler or the Runner ends a settlement.
func (r *Runner) send(d *delivery, reply string, v verdict, now time.Duration) {
	switch v.kind {
	case acked:
		r.counters.acked.Add(1)
	case retried:
		r.counters.retried.Add(1)
		r.park(now, v.delay)
	case givenUp:
		r.countGivenUp(v)
	case returned:
		r.counters.returned.Add(1)
	case late:
		r.counters.late.Add(1)
		return
	}
	r.tell(d, reply, v, now)
}

// tell is send for what is not counted as an outcome.
func (r *Runner) tell(d *delivery, reply string, v verdict, now time.Duration) {
	body := ackBody
	switch v.kind {
	case retried, returned:
		body = nakBody(v.delay)
	case givenUp:
		body = termBody(v.reason)
	}
	if r.cfg.Ack == AckSend {
		if err := r.nc.Publish(reply, body); err != nil {
			r.log.Warn("a settlement could not be sent: the message comes back after ack_wait", append(describe(d), zap.Error(err))...)
			return
		}
		r.conf.tellSent(d.msg.Sequence, body, now)
		return
	}
	if v.kind == acked {
		r.conf.ack(reply, d.msg.Sequence, now)
		return
	}
	r.conf.settle(reply, body, d.msg.Sequence, v.kind == retried || v.kind == returned, v.delay, now)
}
