package worker

import (
	"cmp"
	"slices"
	"time"
)

// lanes keep the order of keys: of the messages of one key one is under way at a time, in stream order, from when it may run until it is settled for
// good, its retries included. What waits behind it waits here: held, under lease, in nobody's slot. buffer.mu guards them.
type lanes struct {
	byKey  map[string]*lane
	of     map[uint64]*lane // of the messages that are held, by sequence
	behind int              // messages that wait here
	alarm  *alarm           // of the loop in order.go
	shut   bool             // what arrives does not begin: see there
	since  time.Duration    // when that began
	mine   uint64           // up to this sequence what is held had arrived before: it may begin
	said   time.Duration    // when it was said, the loop's
	upTo   uint64           // what had been delivered then; 0: not known yet
	missed bool             // some lane may have missing ones
	free   []*lane          // to be used again
}

// lane is one key.
type lane struct {
	key     string
	head    uint64        // the sequence of the one under way: ready, running or kept; 0: none
	last    uint64        // the last that was under way
	guests  int           // that wait for it
	waiting []*delivery   // behind the one under way, in stream order
	missing []uint64      // sequences of those that come first and are not here: their leases are lost, or they were handed back
	until   time.Duration // when they are not waited for any longer; 0: nobody has looked
}

func newLanes() *lanes {
	return &lanes{alarm: newAlarm(), byKey: make(map[string]*lane), of: make(map[uint64]*lane)}
}

func (l *lanes) lane(key string) *lane {
	ln := l.byKey[key]
	if ln == nil {
		if n := len(l.free); n > 0 {
			ln, l.free = l.free[n-1], l.free[:n-1]
		} else {
			ln = &lane{}
		}
		ln.key = key
		l.byKey[key] = ln
	}
	return ln
}

// join takes a message into the lane of its key. It returns whether it may run now; a message without a key may always, once the gate is open.
func (l *lanes) join(d *delivery, key string) bool {
	if key == "" && l.open(d.msg.Sequence) {
		return true
	}
	seq, ln := d.msg.Sequence, l.lane(key)
	l.of[seq] = ln
	ln.found(seq)
	if ln.head == 0 && ln.guests == 0 && l.open(seq) && len(ln.waiting) == 0 && !ln.waits(seq) {
		ln.head, ln.last = seq, seq
		return true
	}
	at, _ := ln.place(seq)
	ln.waiting = slices.Insert(ln.waiting, at, d)
	l.behind++
	return at == 0 && l.next(ln) == d // it is the one that the others wait for
}

// next takes the next message of a lane, or nil where none may run.
func (l *lanes) next(ln *lane) *delivery {
	if ln.head != 0 || ln.guests > 0 {
		return nil
	}
	if len(ln.waiting) == 0 {
		if len(ln.missing) == 0 {
			delete(l.byKey, ln.key)
			*ln = lane{waiting: ln.waiting[:0], missing: ln.missing[:0]}
			l.free = append(l.free, ln)
		}
		return nil
	}
	d := ln.waiting[0]
	if ln.waits(d.msg.Sequence) || !l.open(d.msg.Sequence) {
		return nil
	}
	ln.waiting = slices.Delete(ln.waiting, 0, 1)
	l.behind--
	if ln.key == "" {
		delete(l.of, d.msg.Sequence) // of these as many may run as there are
	} else {
		if d.past != nil && ln.last != 0 {
			d.past.behind = true
		}
		ln.head, ln.last = d.msg.Sequence, d.msg.Sequence
	}
	return d
}

// leave is behind a message that is not ours any more, or settled: done. Else it comes first when it comes again. It returns the next of its key that may
// run, or nil.
func (l *lanes) leave(d *delivery, done bool) *delivery {
	seq := d.msg.Sequence
	ln := l.of[seq]
	if ln == nil {
		return nil
	}
	delete(l.of, seq)
	if at, found := ln.place(seq); found && ln.waiting[at] == d {
		ln.waiting = slices.Delete(ln.waiting, at, at+1)
		l.behind--
	} else {
		ln.head = 0
	}
	switch {
	case done:
		ln.found(seq)
	case ln.key != "":
		l.miss(ln, seq)
	}
	return l.next(ln)
}

// place is where a sequence stands among those that wait, or would.
func (ln *lane) place(seq uint64) (at int, found bool) {
	return slices.BinarySearchFunc(ln.waiting, seq, func(w *delivery, seq uint64) int { return cmp.Compare(w.msg.Sequence, seq) })
}

// waits tells whether a message has to wait for one that is missing.
func (ln *lane) waits(seq uint64) bool { return len(ln.missing) > 0 && ln.missing[0] < seq }

// open tells whether a message may begin as far as the lanes are concerned.
func (l *lanes) open(seq uint64) bool { return !l.shut || seq <= l.mine }

// miss has a lane wait for a message that is to come again.
func (l *lanes) miss(ln *lane, seq uint64) {
	l.missed = true
	l.alarm.by(0)
	if at, found := slices.BinarySearch(ln.missing, seq); !found {
		ln.missing = slices.Insert(ln.missing, at, seq)
		ln.until = 0 // that of others, and maybe long past
	}
}

func (ln *lane) found(seq uint64) {
	if len(ln.missing) == 0 {
		return
	}
	if at, found := slices.BinarySearch(ln.missing, seq); found {
		ln.missing = slices.Delete(ln.missing, at, at+1)
		ln.until = 0
	}
}

// leaveLocked has the next of a key run, behind one that has left.
func (b *buffer) leaveLocked(d *delivery, done bool) {
	if b.lanes != nil {
		b.runLocked(b.lanes.leave(d, done))
	}
}

// runLocked queues a message that may run now. nil: a slot may be waiting for the last one to leave, or a guest for its key.
func (b *buffer) runLocked(d *delivery) {
	switch {
	case d != nil:
		b.queue.push(d)
		b.wakeLocked()
	case b.closed:
		b.more.Broadcast()
	}
	if len(b.guests)+b.waiting > 0 {
		b.free.Broadcast()
	}
}

// behindLocked is how many messages wait behind another of their key.
func (b *buffer) behindLocked() int {
	if b.lanes == nil {
		return 0
	}
	return b.lanes.behind
}

// guestHead stands for a guest that is under way: no message has this sequence.
const guestHead = ^uint64(0)

// guestLane returns the lane in which a guest waits, or nil.
func (b *buffer) guestLane(key string) *lane {
	if b.lanes == nil || key == "" {
		return nil
	}
	ln := b.lanes.lane(key)
	ln.guests++
	return ln
}

// guestWaitsNot is behind a guest that has waited for its lane.
func (b *buffer) guestWaitsNot(ln *lane) {
	if ln != nil {
		ln.guests--
		b.runLocked(b.lanes.next(ln))
	}
}
