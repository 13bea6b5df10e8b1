package worker

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// buffer is the held set: what waits and what runs, by stream sequence, and what was settled lately. Nothing else holds messages.
type buffer struct {
	mu        sync.Mutex
	more      sync.Cond // slots wait here
	held      held
	queue     fifo
	slots     int           // how many may run
	limit     time.Duration // the handle timeout
	running   int
	beside    int                 // of those, the ones that are not the first of their batch, and take no slot of their own
	stuck     int                 // of those kept, the ones whose dead letters can't be written
	stuckSize int                 // bytes of payload of those
	kept      int                 // held, and neither waiting nor running: something is written down first
	special   bool                // the next message is not simply the queue's: there is a pause, a suspect, or a guest
	pause     *pause              // nil: none
	again     agains              // kept: they wait here for a retry that is near
	aside     fifo                // suspects that wait to run alone
	lanes     *lanes              // nil: no order by key
	lone      *delivery           // the suspect that runs alone
	guests    map[*delivery]guest // handlers of another Runner that use slots of ours
	waiting   int                 // of those that want to, the ones that wait for a slot,
	shy       int                 // and of these, the ones that have to run alone
	free      sync.Cond           // they wait here
	ours      bool                // a guest was served last: a message is next
	turned    bool                // no guest comes in any more
	resumed   *pause              // has ended, and nobody was told yet
	idle      int                 // slots that wait on more
	waking    int                 // of those, told to wake and not there yet
	closed    bool                // nothing more will come
	avg       time.Duration       // moving average of the handlers' times; 0 before the first has ended
	gate      time.Duration       // moving average of how long messages wait at the gate
	typical   time.Duration       // moving median of them, which an outlier does not move
	settled   []settledEntry
	top       uint64 // the highest stream sequence taken in

	// After a reconnect the server may have forgotten deliveries altogether, and deliver what was settled as if for the first time.
	forgotSeq   uint64 // up to this sequence,
	forgotUntil time.Duration

	elsewhere map[uint64]elsewhere // what other workers hold, by sequence
	toldUntil time.Duration        // until then deliveries are compared with what they have told
}

func newBuffer(slots int, handleTimeout time.Duration) *buffer {
	b := &buffer{slots: slots, limit: handleTimeout, guests: make(map[*delivery]guest), settled: make([]settledEntry, settledSize)}
	b.more.L, b.free.L = &b.mu, &b.mu
	return b
}

// wakeLocked wakes one slot if there is work for one, and leaves it to that slot to wake the next: a burst wakes as many slots as its
// handlers need, and a handler that does nothing keeps one awake (a signal a message costs a fifth of the throughput).
func (b *buffer) wakeLocked() {
	if b.queue.len() > 0 && b.sleepyLocked() {
		b.waking++
		b.more.Signal()
	}
}

// wake wakes a slot if there is work for one.
func (b *buffer) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wakeLocked()
}

// sleepyLocked tells whether there is a slot to wake: one waits, and none is on its way.
func (b *buffer) sleepyLocked() bool { return b.idle > b.waking && b.waking == 0 }

// take waits for the next message for a slot and marks it as running. It returns nil when nothing more will come.
// now is the caller's time, so that the clock is read once a message.
func (b *buffer) take(c clock, now time.Duration) *delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if d := b.nextLocked(now); d != nil {
			d.startLocked(now, b.limit)
			b.running++
			b.wakeLocked()
			return d
		}
		if b.closed && b.queue.len()+b.aside.len()+b.behindLocked() == 0 {
			return nil
		}
		b.idle++
		b.more.Wait()
		b.idle--
		now = c.now()
		if b.waking > 0 {
			b.waking--
		}
	}
}

// nextLocked takes the message whose turn it is, or nil where none may run now.
func (b *buffer) nextLocked(now time.Duration) *delivery {
	if b.special {
		return b.specialLocked(now)
	}
	if b.running >= b.slots {
		return nil
	}
	for {
		if d := b.queue.pop(); d == nil || !d.gone {
			return d
		}
	}
}

// endRunLocked ends what began when a slot got a message.
func (b *buffer) endRunLocked(d *delivery, now time.Duration) {
	b.notRunningLocked(d)
	b.learnLocked(max(now-(d.attempt.limit-b.limit), 1))
	if b.special {
		b.endSpecialLocked(d)
	}
	b.wakeLocked()
}

// finishLocked takes a message that ran out of the held set, and remembers it where it was settled for good.
// It returns the reply subject to settle it with, and whether it was no longer ours.
func (b *buffer) finishLocked(d *delivery, now time.Duration, forGood bool) (reply string, gone bool) {
	b.held.remove(d)
	if forGood {
		b.rememberLocked(d, now)
	}
	b.leaveLocked(d, forGood)
	b.endRunLocked(d, now)
	return d.reply, d.gone
}

// keepLocked keeps a message whose handler has returned, under lease, until what has to be written down first is. It returns false
// where it is no longer ours.
func (b *buffer) keepLocked(d *delivery, now time.Duration) bool {
	if d.gone {
		b.finishLocked(d, now, false)
		return false
	}
	b.endRunLocked(d, now)
	d.running, d.expired, d.kept = false, false, true
	b.kept++
	return true
}

// releaseLocked takes a message that was kept out of the held set.
func (b *buffer) releaseLocked(d *delivery, now time.Duration, forGood bool) (reply string, gone bool) {
	if d.kept {
		b.unkeepLocked(d)
		b.held.remove(d)
		if forGood {
			b.rememberLocked(d, now)
		}
		b.leaveLocked(d, forGood)
	}
	return d.reply, d.gone
}

func (b *buffer) unkeepLocked(d *delivery) {
	d.kept = false
	b.kept--
}

// drop takes messages out of the held set that are no longer ours, without settling them. A handler that runs keeps
// running; its message stays held, so that this process does not run it twice at once.
func (b *buffer) dropLocked(d *delivery) {
	d.gone = true
	if d.kept {
		b.unkeepLocked(d)
	}
	if !d.running {
		b.held.remove(d)
		b.leaveLocked(d, false)
	} else if b.special {
		b.lostLocked(d)
	}
}

// close says that nothing more will come: slots end when the queue is empty.
func (b *buffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.more.Broadcast()
}

// takeBack empties the queue and returns what waited, lowest sequence first: NAKs are delivered again in the order in which they arrive.
func (b *buffer) takeBack() []*delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*delivery
	for _, q := range []*fifo{&b.queue, &b.aside} {
		for d := q.pop(); d != nil; d = q.pop() {
			if !d.gone {
				b.held.remove(d)
				b.leaveLocked(d, false)
				out = append(out, d)
			}
		}
	}
	if b.lanes != nil {
		out = append(out, b.takeWaitingLocked(func(*lane) bool { return true })...)
	}
	b.more.Broadcast() // nothing is left for slots that wait for their turn
	sortBySequence(out)
	return out
}

// abandon gives up a message whose handler does not return. It returns the reply subject to hand it back with, or false if it is not ours any
// more, or has just been settled.
func (b *buffer) abandon(d *delivery) (reply string, ours bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d.gone || b.held.get(d.msg.Sequence) != d {
		return "", false
	}
	d.gone = true
	return d.reply, true
}

// runningNow returns what handlers are running, lowest sequence first.
func (b *buffer) runningNow() []*delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*delivery
	for d := range b.held.all() {
		if d.running {
			out = append(out, d)
		}
	}
	sortBySequence(out)
	return out
}

func sortBySequence(ds []*delivery) {
	slices.SortFunc(ds, func(a, b *delivery) int { return cmp.Compare(a.msg.Sequence, b.msg.Sequence) })
}

// count returns how many messages wait, run and are kept.
func (b *buffer) count() (waiting, running, kept int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held.len() - b.running - b.kept, b.running, b.kept
}
