package worker

import (
	"cmp"
	"time"
)

// limits are what the consumer allows, read when it was bound, and again after a change.
type limits struct {
	batch    int // messages a request; 0: no limit
	expires  time.Duration
	bytes    int
	capacity int // of messages held, by max_ack_pending; 0: no limit
	waiting  int // open pulls, of all workers together; 0: no limit

	group     string        // that pulls name, of a pinned consumer
	pinnedTTL time.Duration // how long a pin lasts without a pull that names it
}

// keptFree is how many messages may be kept beside those held, while they are written down; more than that stand for messages that wait.
const keptFree = 64

// roomLocked tells how many messages to ask for now: none, unless it is worth a request.
func (r *Runner) roomLocked() int {
	p := &r.pull
	free := keptFree
	if p.size > 0 {
		free = min(free, max(1, r.cfg.PullBytes/p.size))
	}
	held := r.buf.held.len() - min(r.buf.kept, r.buf.stuck+free)
	l := r.buf.lanes
	if l != nil { // what waits behind its key takes no place of what can run
		held = r.buf.held.len() - l.behind - r.buf.kept
	}
	missing := l != nil && (l.missed || l.shut) && p.asked == 0 // what others wait for has to find a pull, whatever is held
	if r.buf.held.size-r.buf.stuckSize > r.cfg.PullBytes && !missing || p.open == pullsMax {
		return 0 // so no more is held than three times PULL_BYTES: this, and what two pulls bring
	}
	if p.stopped || p.limits.waiting > 0 && p.open >= p.limits.waiting {
		return 0
	}
	most := r.allowedLocked(r.width() + p.prefetch)
	room := most - held
	n := room - p.asked
	if l != nil {
		n = min(n, r.aheadLocked()-r.buf.held.len()-p.asked)
	}
	if missing {
		if n < 1 && r.clock.now() < p.fresh+time.Second {
			return 0 // what comes may be others, which are held too: one at a time, and not many
		}
		return max(n, 1)
	}
	// Not one request a message where many may wait, and not many small ones open at once where few may.
	if n < max(1, (most-r.width())/2) || most < 2*r.width() && 2*p.asked >= room {
		return 0
	}
	if r.conf.open.Load() > maxOpen {
		return 0
	}
	if free := cap(r.reader.in)/2 - p.asked; n > free { // what has no room there is dropped
		if n = free; n < cap(r.reader.in)/8 {
			return 0
		}
	}
	return n
}

// orderMost is how many messages are held where keys are kept in order and max_ack_pending sets no limit.
const orderMost = 10000

// aheadLocked is how many messages may be held together with those that wait behind their keys: as far does the worker look for keys that
// can go on.
func (r *Runner) aheadLocked() int {
	return r.allowedLocked(cmp.Or(r.pull.limits.capacity, orderMost))
}

// allowedLocked is most, or fewer: what max_ack_pending allows, and no more bytes, held and on their way, than two pulls may bring.
func (r *Runner) allowedLocked(most int) int {
	p := &r.pull
	if p.limits.capacity > 0 {
		most = min(most, p.limits.capacity)
	}
	if p.size > 0 {
		most = min(most, max(1, 2*r.cfg.PullBytes/p.size))
	}
	return most
}

// wantedLocked is roomLocked behind a fresh look at how many may wait; in a pause it is what that allows.
func (r *Runner) wantedLocked() int {
	if r.buf.pause != nil {
		return r.pausedLocked()
	}
	if r.roomLocked() == 0 {
		return 0
	}
	r.prefetchLocked(r.conf.roundTrip())
	return r.roomLocked()
}

// prefetchLocked sets how many messages may wait, anew for each pull, where that is automatic.
func (r *Runner) prefetchLocked(confirm time.Duration) {
	if r.cfg.Prefetch > 0 {
		return
	}
	p := &r.pull
	p.prefetch = automatic(r.cfg.Concurrency, r.buf.avg+r.buf.gate, confirm)
	if r.batch != nil { // the next batch is there when one ends, and the one after it is on its way
		p.prefetch = r.batch.size * max(2, p.prefetch)
	}
	if p.limits.capacity > 0 {
		p.prefetch = min(p.prefetch, max(0, p.limits.capacity-r.width()))
	}
}

// automatic is how many messages may wait beyond those that run: what the slots handle in a few round trips. With a fast handler
// that is enough never to wait for the network; with a slow one it is none, so that nothing waits long behind another
// message, and a second worker gets its share.
func automatic(slots int, handle, confirm time.Duration) int {
	if handle <= 0 {
		return 0
	}
	wait := min(max(4*confirm, waitMin), waitMax)
	return min(int(int64(slots)*int64(wait)/int64(handle)), prefetchMax)
}
