package worker

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// settledSize is how many of the last sequences are remembered as settled: 16 bytes each.
const settledSize = 1 << 14

// buffer is the held set: what waits and what runs, by stream sequence, and what was settled lately. Nothing else holds messages.
type buffer struct {
	mu      sync.Mutex
	more    sync.Cond // slots wait here
	held    map[uint64]*delivery
	queue   fifo
	slots   int           // how many may run
	limit   time.Duration // the handle timeout
	running int
	idle    int           // slots that wait on more
	waking  int           // of those, told to wake and not there yet
	closed  bool          // nothing more will come
	avg     time.Duration // moving average of the handlers' times; 0 before the first has ended
	typical time.Duration // moving median of them, which an outlier does not move
	settled []settledEntry
	top     uint64 // the highest stream sequence taken in

	// After a reconnect the server may have forgotten deliveries altogether, and deliver what was settled as if for the first time.
	forgotSeq   uint64 // up to this sequence,
	forgotUntil time.Duration
}

type settledEntry struct {
	seq       uint64
	published int64
}

func newBuffer(slots int, handleTimeout time.Duration) *buffer {
	b := &buffer{slots: slots, limit: handleTimeout, held: make(map[uint64]*delivery), settled: make([]settledEntry, settledSize)}
	b.more.L = &b.mu
	return b
}

// arrival is what the buffer says of a delivery that came in.
type arrival int

const (
	added          arrival = iota
	heldAlready            // a redelivery of one that is held: only its reply subject is new
	runsTooLong            // a redelivery of one that runs here still, but is no longer ours: another worker's turn
	settledAlready         // a redelivery of one that was settled a moment ago
	tooLate                // nothing is taken in any more
)

// arrivalLocked tells what a delivery is.
func (b *buffer) arrivalLocked(d *delivery) arrival {
	seq := d.msg.Sequence
	if h := b.held[seq]; h != nil && h.published() == d.published() {
		if h.expired || h.gone {
			h.bounced++
			d.bounced = h.bounced
			return runsTooLong
		}
		h.reply, h.leaseEnd, h.stampDue = d.reply, d.leaseEnd, d.received
		return heldAlready
	}
	again := d.msg.Attempt > 1 || seq <= b.forgotSeq && d.received < b.forgotUntil
	if again && b.settled[seq%settledSize] == (settledEntry{seq, d.published()}) {
		return settledAlready
	}
	if b.closed {
		return tooLate
	}
	return added
}

// holdLocked puts a delivery into the held set.
func (b *buffer) holdLocked(d *delivery) {
	b.top = max(b.top, d.msg.Sequence)
	b.held[d.msg.Sequence] = d
}

// serverMayHaveForgotten is called after a reconnect. A server that was killed with -9 forgets up to 100 ms of deliveries and acks on an
// unreplicated stream, and counts from 1 again. A consumer that somebody resets to handle messages anew looks the same,
// so this holds for a minute only, and only for what had been delivered before.
func (b *buffer) serverMayHaveForgotten(now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgotSeq, b.forgotUntil = b.top, now+time.Minute
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
		var d *delivery
		if b.running < b.slots {
			d = b.queue.pop()
		}
		if d != nil {
			if d.gone {
				continue
			}
			d.startLocked(now, b.limit)
			b.running++
			b.wakeLocked()
			return d
		}
		if b.closed && b.queue.len() == 0 {
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

// finishLocked takes a message that ran out of the held set, remembers it where it was settled for good, and learns from its time.
// It returns the reply subject to settle it with, and whether it was no longer ours.
func (b *buffer) finishLocked(d *delivery, now time.Duration, forGood bool) (reply string, gone bool) {
	took := max(now-d.started, 1)
	b.running--
	if b.held[d.msg.Sequence] == d {
		delete(b.held, d.msg.Sequence)
	}
	if forGood {
		b.rememberLocked(d)
	}
	b.wakeLocked()
	b.learnLocked(took)
	return d.reply, d.gone
}

// learnLocked takes in how long a handler took.
func (b *buffer) learnLocked(took time.Duration) {
	if b.avg == 0 {
		b.avg, b.typical = took, took
		return
	}
	b.avg += (took - b.avg) / 16
	step := b.typical/8 + 1
	switch {
	case took > inlineLimit && b.typical < fastHandler:
		b.typical = took // the reader was in it too long: not again until many were fast
	case took > b.typical:
		b.typical += step
	case took < b.typical:
		b.typical -= step
	}
}

func (b *buffer) rememberLocked(d *delivery) {
	b.settled[d.msg.Sequence%settledSize] = settledEntry{d.msg.Sequence, d.published()}
}

// drop takes messages out of the held set that are no longer ours, without settling them. A handler that runs keeps
// running; its message stays held, so that this process does not run it twice at once.
func (b *buffer) dropLocked(d *delivery) {
	d.gone = true
	if !d.running {
		delete(b.held, d.msg.Sequence)
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
	for d := b.queue.pop(); d != nil; d = b.queue.pop() {
		if !d.gone {
			delete(b.held, d.msg.Sequence)
			out = append(out, d)
		}
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
	if d.gone || b.held[d.msg.Sequence] != d {
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
	for _, d := range b.held {
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

// count returns how many messages wait and how many run.
func (b *buffer) count() (waiting, running int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.held) - b.running, b.running
}
