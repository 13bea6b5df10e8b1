package worker

import "time"

// What may run is the queue's head, unless something is special: a pause, a suspect that has to run alone, or guests.

// specialLocked takes the message whose turn it is in such a time.
func (b *buffer) specialLocked(now time.Duration) *delivery {
	switch {
	case b.lone != nil, b.shy > 0 && b.pause == nil, b.slotsTakenLocked() >= b.slots:
		return nil
	case b.pause != nil && (b.pause.probe != nil || now < b.pause.until):
		return nil
	case b.pause == nil && b.aside.len() == 0 && b.guestsTurnLocked():
		return nil // a guest's turn
	}
	first, second := &b.aside, &b.queue
	if b.pause != nil && b.pause.tried%2 == 1 { // a suspect that asks for a pause again and again must not hold up all others
		first, second = second, first
	}
	for _, q := range []*fifo{first, second} {
		if q == &b.aside && q.len() > 0 && b.activeLocked() > 0 {
			return nil
		}
		for d := q.pop(); d != nil; d = q.pop() {
			if d.gone {
				continue
			}
			if q == &b.aside {
				b.lone = d
			}
			return b.takenLocked(d)
		}
	}
	b.ordinaryLocked()
	return nil
}

// slotsTakenLocked is how many slots are taken.
func (b *buffer) slotsTakenLocked() int { return b.running - b.beside + len(b.guests) }

// guestsTurnLocked tells whether a free slot is a guest's.
func (b *buffer) guestsTurnLocked() bool {
	return b.waiting > 0 && !b.ours && b.slotsTakenLocked()+b.waiting > b.slots
}

// notRunningLocked is behind a message that a slot had.
func (b *buffer) notRunningLocked(d *delivery) {
	b.running--
	if d.beside {
		d.beside = false
		b.beside--
	}
}

// takenLocked is behind a message that a slot takes in such a time. The first that runs behind a pause is its probe.
func (b *buffer) takenLocked(d *delivery) *delivery {
	b.ours = false
	if b.pause != nil {
		b.pause.probe = d
	}
	return d
}

// activeLocked is how many handlers run whose end is to be waited for: not those that hang past their time.
func (b *buffer) activeLocked() int {
	n := 0
	for _, g := range b.guests {
		if !g.hangs {
			n++
		}
	}
	for d := range b.held.all() {
		if d.running && !d.gone && !d.expired {
			n++
		}
	}
	return n
}

// endSpecialLocked is called when a handler has ended in such a time.
func (b *buffer) endSpecialLocked(d *delivery) {
	if b.lone == d {
		b.lone = nil
	}
	if b.pause != nil && b.pause.probe == d { // whatever came of it: it was not the same trouble again
		b.resumed, b.pause = b.pause, nil
	}
	b.ordinaryLocked()
	b.wakeAllLocked()
}

// wakeAllLocked wakes everybody who waits for a turn.
func (b *buffer) wakeAllLocked() {
	b.more.Broadcast()
	b.free.Broadcast()
}

// ordinaryLocked ends the special time if nothing is special any more.
func (b *buffer) ordinaryLocked() {
	b.special = b.lone != nil || b.pause != nil || len(b.guests)+b.waiting > 0 || b.aside.len() > 0
}

// lostLocked is called for a handler that is not waited for any more: its lease is lost, or it hangs.
func (b *buffer) lostLocked(d *delivery) {
	if b.lone == d {
		b.lone = nil
	}
	b.notProbeLocked(d)
	b.ordinaryLocked()
	b.wakeAllLocked()
}

// notProbeLocked has another message tried behind a pause, where d was to be it.
func (b *buffer) notProbeLocked(d *delivery) {
	if b.pause != nil && b.pause.probe == d {
		b.pause.probe = nil
	}
}

// setAside takes a suspect back from a slot, before its handler is called, until it can run alone.
func (b *buffer) setAside(d *delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notRunningLocked(d)
	d.running = false
	b.special = true
	b.notProbeLocked(d)
	if !d.gone {
		b.aside.push(d)
	} else {
		b.held.remove(d)
		b.leaveLocked(d, false)
	}
	b.wakeAllLocked()
}

// guest is a handler of another Runner of this process that uses a slot.
type guest struct {
	hangs bool
	key   string // of its message, where keys are kept in order
}

// enter waits for a slot for a guest; alone is for a suspect. It returns false when the guest is to give up, since the grace is over. Guests and
// messages take turns where slots are few.
func (b *buffer) enter(d *delivery, alone bool, key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting++
	if alone {
		key = "" // nothing runs beside it; and what is next of its key may be waiting for it
	}
	ln := b.guestLane(key)
	defer b.guestWaitsNot(ln)
	if alone {
		b.shy++
	}
	b.special = true
	defer func() {
		b.waiting--
		if alone {
			b.shy--
		}
		b.ordinaryLocked()
	}()
	for !b.turned {
		if b.mayEnterLocked(alone) && (ln == nil || ln.head == 0) {
			b.guests[d] = guest{key: key}
			if ln != nil {
				ln.head = guestHead
			}
			if alone {
				b.lone = d
			}
			return true
		}
		b.free.Wait()
	}
	return false
}

func (b *buffer) mayEnterLocked(alone bool) bool {
	switch {
	case b.slotsTakenLocked() >= b.slots, b.lone != nil, b.pause != nil:
		return false
	case alone:
		return b.activeLocked() == 0
	}
	return b.aside.len() == 0 && b.shy == 0 && (!b.ours || b.queue.len() == 0)
}

// hangs is called when a guest's time is over, or its lease lost: nobody waits for it any more.
func (b *buffer) hangs(d *delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.guests[d]; ok { // its key waits for it all the same
		b.guests[d] = guest{hangs: true, key: b.guests[d].key}
		b.lostLocked(d)
	}
}

// leave gives a guest's slot back.
func (b *buffer) leave(d *delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if key := b.guests[d].key; b.lanes != nil && key != "" {
		ln := b.lanes.lane(key)
		ln.head = 0
		b.runLocked(b.lanes.next(ln))
	}
	delete(b.guests, d)
	if b.lone == d {
		b.lone = nil
	}
	b.ours = b.queue.len() > 0
	b.ordinaryLocked()
	b.wakeAllLocked()
}

// turnAway sends guests away that wait.
func (b *buffer) turnAway() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turned = true
	b.free.Broadcast()
}
