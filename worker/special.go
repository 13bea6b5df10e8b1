package worker

import "time"

// What may run is the queue's head, unless something is special: a pause, a suspect that has to run alone, or guests.

// specialLocked takes the message whose turn it is in such a time.
func (b *buffer) specialLocked(now time.Duration) *delivery {
	switch {
	case b.lone != nil, b.running+b.guests >= b.slots, b.waiting > 0 && !b.ours && b.running+b.guests+b.waiting >= b.slots+1:
		return nil
	case b.pause != nil && (b.pause.probe != nil || now < b.pause.until):
		return nil
	case b.aside.len() > 0:
		if b.activeLocked() > 0 {
			return nil
		}
		for d := b.aside.pop(); d != nil; d = b.aside.pop() {
			if !d.gone {
				b.lone = d
				return b.takenLocked(d)
			}
		}
	}
	for d := b.queue.pop(); d != nil; d = b.queue.pop() {
		if !d.gone {
			return b.takenLocked(d)
		}
	}
	b.ordinaryLocked()
	return nil
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
	n := b.guests
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
	b.special = b.lone != nil || b.pause != nil || b.guests+b.waiting > 0 || b.aside.len() > 0
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
	b.running--
	d.running = false
	b.special = true
	b.notProbeLocked(d)
	if !d.gone {
		b.aside.push(d)
	} else {
		b.held.remove(d)
	}
	b.wakeAllLocked()
}

// enter waits for a slot for a guest: a handler that another Runner of this process calls. It returns false when the guest is to give
// up, since the grace is over. Guests and messages take turns where slots are few.
func (b *buffer) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting++
	b.special = true
	defer func() { b.waiting--; b.ordinaryLocked() }()
	for {
		if b.turned {
			return false
		}
		if b.running+b.guests < b.slots && b.lone == nil && b.pause == nil && b.aside.len() == 0 && (!b.ours || b.queue.len() == 0) {
			b.guests++
			return true
		}
		b.free.Wait()
	}
}

// leave gives a guest's slot back.
func (b *buffer) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.guests--
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
