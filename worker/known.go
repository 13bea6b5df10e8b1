package worker

import (
	"math"
	"time"
)

// settledSize is how many of the last sequences are remembered as settled: 32 bytes each.
const settledSize = 1 << 14

type settledEntry struct {
	seq       uint64
	published int64
	at        time.Duration // when it was settled,
	by        settledBy
}

// settledBy is who has settled a message: see others.go.
type settledBy uint8

const (
	thisWorker    settledBy = iota
	anotherWorker           // which tells that itself
	endedWorker             // which has told it, and can't be asked any more
)

const forgotFor = time.Minute // how long deliveries are compared with what the server may have forgotten

// arrival is what the buffer says of a delivery that came in.
type arrival int

const (
	added          arrival = iota
	heldAlready            // a redelivery of one that is held: only its reply subject is new
	runsTooLong            // a redelivery of one that runs here still, but is no longer ours: another worker's turn
	settledAlready         // a redelivery of one that was settled a moment ago
	heldElsewhere          // another worker has it, and the server does not know
	tooEarly               // a redelivery on a pull that was not to be: whoever had it before may be about to settle it
	tooLate                // nothing is taken in any more
)

// arrivalLocked tells what a delivery is.
func (b *buffer) arrivalLocked(d *delivery) arrival {
	seq := d.msg.Sequence
	if h := b.held.get(seq); h != nil && h.published() == d.published() {
		if h.expired || h.gone {
			h.bounceLocked(d)
			return runsTooLong
		}
		h.reply, h.leaseEnd, h.stampDue, h.stamped, h.unsure = d.reply, d.leaseEnd, d.received, 0, false
		h.attempt.newest = uint32(min(d.deliveriesLocked(), math.MaxUint32))
		return heldAlready
	}
	again := d.past != nil || seq <= b.forgotSeq && d.received < b.forgotUntil
	if again || d.received < b.toldUntil {
		if e := &b.settled[seq%settledSize]; e.seq == seq && e.published == d.published() && (again || e.by != thisWorker) {
			return settledAlready
		}
		if b.elsewhereLocked(d) {
			return heldElsewhere
		}
	}
	if b.closed {
		return tooLate
	}
	return added
}

// bounceLocked is called with a redelivery d of a message that runs here still: it counts in d how many of them have come in a row.
func (h *delivery) bounceLocked(d *delivery) {
	if h.bounced == 0 || d.received > h.stampDue+(d.leaseEnd-d.received)/4 {
		h.bounced = 0
	}
	h.bounced = min(h.bounced, 254) + 1
	h.stampDue, d.bounced = d.received, h.bounced // it needs no more stamps
}

// holdLocked puts a delivery into the held set.
func (b *buffer) holdLocked(d *delivery) {
	b.top = max(b.top, d.msg.Sequence)
	b.held.put(d)
}

// serverMayHaveForgotten is called after a reconnect. A server that was killed with -9 forgets up to 100 ms of deliveries and acks on an
// unreplicated stream, and counts from 1 again. A consumer that somebody resets to handle messages anew looks the same,
// so this holds for a minute only, and only for what had been delivered before.
func (b *buffer) serverMayHaveForgotten(now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgotSeq, b.forgotUntil = b.top, now+forgotFor
	b.toldUntil = now + forgotFor
}

func (b *buffer) rememberLocked(d *delivery, now time.Duration) {
	b.settled[d.msg.Sequence%settledSize] = settledEntry{d.msg.Sequence, d.published(), now, thisWorker}
}
