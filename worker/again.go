package worker

import (
	"container/heap"
	"time"
)

// A failed message whose retry is near is not given back: it stays held, under lease and in nobody's slot, and is handled again here. That saves a
// delivery, and the server's delays, which are coarse (nats-server 2.15: each delayed NAK moves the timer of all of them). Where keys
// are kept in order every retry is one of these, or what came later would overtake.

const (
	againNear = time.Second // a retry is handled here when its delay is no longer than this, or keys are kept in order,
	againMost = keptFree    // and no more than so many wait for theirs
)

// again is a message that waits for its retry.
type again struct {
	at time.Duration
	d  *delivery
}

// agains are those that wait, the next first.
type agains []again

func (a agains) Len() int           { return len(a) }
func (a agains) Less(i, j int) bool { return a[i].at < a[j].at }
func (a agains) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *agains) Push(x any)        { *a = append(*a, x.(again)) }
func (a *agains) Pop() any {
	last := (*a)[len(*a)-1]
	(*a)[len(*a)-1] = again{}
	*a = (*a)[:len(*a)-1]
	return last
}

// retryHere keeps a message whose attempt has failed for the next one, where that is better than giving it back: either one that was kept until the record
// of the failure was written, or one whose handler has just returned. rec is what is known of it by now.
func (r *Runner) retryHere(d *delivery, v verdict, rec record, known bool, err error) bool {
	now := r.clock.now()
	b := r.buf
	b.mu.Lock()
	if d.gone || b.closed || b.lanes == nil && !r.bestHereLocked(v, known) || b.lanes != nil && r.standsBy() {
		b.mu.Unlock()
		return false
	}
	next := d.nextLocked(rec, known)
	if d.kept {
		d.kept = false // next is, in its place
	} else {
		b.endRunLocked(d, now)
		b.kept++
	}
	next.kept = true
	b.held.put(next)
	at := now + v.delay
	heap.Push(&b.again, again{at, next})
	due := next.stampDue
	r.unlockAsking(d, now)
	r.leases.by(due) // of one whose time was over nobody has looked after it
	r.counters.retried.Add(1)
	r.logFailure(d, v, err)
	r.againAlarm.by(at)
	return true
}

// retryLater keeps a message that was given back before its retry was due, by a worker that stopped, until it is. It is not settled here, and returns false where it
// may run now.
func (r *Runner) retryLater(d *delivery, delay time.Duration) bool {
	if delay <= 0 {
		return false
	}
	now := r.clock.now()
	b := r.buf
	b.mu.Lock()
	if d.gone || b.closed {
		b.mu.Unlock()
		if reply, gone := r.finish(d, now, false); !gone {
			r.handBack(d, reply, 0)
		}
		return true
	}
	next := d.copyLocked()
	b.endRunLocked(d, now)
	b.kept++
	next.kept = true
	b.held.put(next)
	heap.Push(&b.again, again{now + delay, next})
	due := next.stampDue
	r.unlockAsking(d, now)
	r.leases.by(due)
	r.againAlarm.by(now + delay)
	return true
}

// owed tells whether a message that waits for its retry here was given back by another worker before, and has not been called here: that is still to be written down.
func (r *Runner) owed(d *delivery) bool {
	return r.buf.lanes != nil && d.past.known && d.past.deliveries > d.past.record.Known
}

// bestHereLocked tells whether the retry is better made here, where that is not so for order's sake: it is near, few others wait, the failure is written down,
// and it is not one that another process may be spared, as a time-out or a panic may be.
func (r *Runner) bestHereLocked(v verdict, known bool) bool {
	return known && v.reason == failedReason && v.delay <= againNear && len(r.buf.again) < againMost && r.records.broken.Load() == 0
}

// copyLocked makes the next attempt of a message: a copy, since the handler, or what it left behind, may still look at this attempt's context and message.
func (d *delivery) copyLocked() *delivery {
	next := &delivery{attempt: attempt{r: d.attempt.r}, msg: d.msg, past: d.past, reply: d.reply, received: d.received, bounced: d.bounced,
		stampDue: d.stampDue, leaseEnd: d.leaseEnd, stamped: d.stamped, unsure: d.unsure}
	next.attempt.d = next
	next.attempt.newest = d.attempt.newest
	return next
}

// nextLocked is copyLocked for an attempt behind a failure.
func (d *delivery) nextLocked(rec record, known bool) *delivery {
	next := d.copyLocked()
	next.past = &history{deliveries: d.deliveriesLocked(), record: rec, known: known, admitted: true, alone: rec.Deaths > 0}
	next.msg.Attempt++
	if known {
		next.msg.Attempt = rec.Failures + rec.Deaths + 1
	}
	return next
}

// tendAgain hands what is due to the slots.
func (r *Runner) tendAgain(now time.Duration) time.Duration {
	b := r.buf
	b.mu.Lock()
	defer b.mu.Unlock()
	woken := false
	for len(b.again) > 0 && b.again[0].at <= now {
		d := heap.Pop(&b.again).(again).d
		if d.gone { // and was taken out
			continue
		}
		b.unkeepLocked(d)
		if d.past.alone {
			b.special = true
			b.aside.push(d)
		} else {
			b.queue.push(d)
		}
		woken = true
	}
	if woken && b.special {
		b.wakeAllLocked()
	} else if woken {
		b.wakeLocked()
	}
	if len(b.again) == 0 {
		return never
	}
	return b.again[0].at
}

// takeAgain takes the messages out that wait for a retry here, with the delay that each has left.
func (b *buffer) takeAgain(now time.Duration) (ds []*delivery, delays map[*delivery]time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delays = make(map[*delivery]time.Duration)
	for _, a := range b.again {
		if a.d.gone {
			continue
		}
		b.unkeepLocked(a.d)
		b.held.remove(a.d)
		b.leaveLocked(a.d, false)
		ds = append(ds, a.d)
		delays[a.d] = max(0, a.at-now)
	}
	b.again = nil
	sortBySequence(ds)
	return ds, delays
}

// handBackAgain gives back what waits here for a retry: it is the next worker's.
func (r *Runner) handBackAgain() {
	now := r.clock.now()
	ds, delays := r.buf.takeAgain(now)
	for _, d := range ds {
		if r.owed(d) {
			r.handBack(d, d.reply, 0)
		} else {
			v := r.inOrder(verdict{kind: retried, delay: delays[d]})
			r.park(now, v.delay)
			r.tell(d, d.reply, v, now)
		}
	}
}
