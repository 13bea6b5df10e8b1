package worker

import "time"

// elsewhere is a message that another worker holds, as it said behind a reconnect or a change of leader.
type elsewhere struct {
	fact
	until time.Duration // how long that counts: it may have died since
	reply string        // of the delivery that was left to it; "": none was
}

// toTellLocked lists what was settled since a moment, here or by workers that have ended since, and what is held.
func (b *buffer) toTellLocked(since, now time.Duration) (settled, held []fact) {
	for i := range b.settled {
		if e := &b.settled[i]; e.seq > 0 && e.at >= since && e.by != anotherWorker {
			settled = append(settled, e.fact(now))
		}
	}
	for d := range b.held.all() {
		if !d.gone && !d.expired {
			held = append(held, fact{d.msg.Sequence, d.published(), int64(d.deliveriesLocked())})
		}
	}
	return settled, held
}

func (e *settledEntry) fact(now time.Duration) fact {
	return fact{e.seq, e.published, int64((now - e.at) / time.Millisecond)}
}

// settledSinceLocked takes those of the sequences that are not held any more, and lists the ones that were settled.
func (b *buffer) settledSinceLocked(held map[uint64]struct{}, now time.Duration) (settled []fact) {
	for seq := range held {
		if b.held.get(seq) != nil {
			continue
		}
		delete(held, seq)
		if e := &b.settled[seq%settledSize]; e.seq == seq {
			settled = append(settled, e.fact(now))
		}
	}
	return settled
}

// hearSettledLocked remembers what another worker has settled. It returns deliveries of such messages that came before the word: they are to be acknowledged, as
// are those that come later.
func (b *buffer) hearSettledLocked(settled []fact, by settledBy, now time.Duration) (here []*delivery) {
	for _, f := range settled {
		if e := &b.settled[f.seq%settledSize]; e.seq < f.seq || e.seq == f.seq && (e.published != f.published || e.by == anotherWorker) {
			*e = settledEntry{f.seq, f.published, now - time.Duration(f.more)*time.Millisecond, by}
		}
		if e, ok := b.elsewhere[f.seq]; ok && e.published == f.published {
			if delete(b.elsewhere, f.seq); e.reply != "" {
				d := &delivery{reply: e.reply}
				d.msg.Sequence = f.seq
				here = append(here, d)
			}
		}
		if d := b.held.get(f.seq); d != nil && d.published() == f.published && !d.running && !d.kept && !d.gone {
			d.gone = true // where it waits it is passed over
			b.held.remove(d)
			b.leaveLocked(d, true)
			here = append(here, d)
		}
	}
	return here
}

// hearHeldLocked remembers what another worker holds, for as long as its lease may last.
func (b *buffer) hearHeldLocked(held []fact, now, lease time.Duration) {
	for seq, e := range b.elsewhere {
		if now > e.until {
			delete(b.elsewhere, seq)
		}
	}
	for _, f := range held {
		if b.elsewhere == nil {
			b.elsewhere = make(map[uint64]elsewhere)
		}
		b.elsewhere[f.seq] = elsewhere{fact: f, until: now + lease, reply: b.elsewhere[f.seq].reply}
	}
}

// elsewhereLocked tells whether another worker holds a message that is delivered here: by a server that has forgotten that it does, or it would count more
// deliveries. It is kept by nobody here then, so it comes again behind ack_wait unless the other settles it, or extends its lease.
func (b *buffer) elsewhereLocked(d *delivery) bool {
	e, ok := b.elsewhere[d.msg.Sequence]
	if !ok || e.published != d.published() || d.received > e.until || int64(d.deliveriesLocked()) > e.more {
		return false
	}
	e.reply = d.reply
	b.elsewhere[d.msg.Sequence] = e
	return true
}
