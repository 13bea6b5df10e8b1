package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
)

const (
	orderLook  = 200 * time.Millisecond // how often it looks whether keys may begin, and what is missing
	orderSoon  = 20 * time.Millisecond  // and where it is not known yet what was under way
	orderSlack = 2 * time.Second        // beyond ack_wait, after which the server has delivered everything again that nobody holds
)

// tendOrder sees to what the order of keys needs beside the lanes. When a Runner starts, another process may have died with messages that come again within ack_wait,
// behind later ones of their keys; when a connection broke or a leader moved, deliveries may have been lost on the way. So nothing that arrives then begins until all that is
// under way is here. And a message whose lease was lost, or that was handed back, is waited for, but not for ever, since another process may have it.
func (r *Runner) tendOrder(now time.Duration) time.Duration {
	r.buf.mu.Lock()
	l := r.buf.lanes
	began, shut := l.since, l.shut
	r.buf.mu.Unlock()
	if r.standsBy() {
		return never // nothing comes, and the lanes are shut anew when the pin does
	}
	if !shut {
		if r.findMissing(now) {
			return now + orderLook
		}
		return never
	}
	known, complete := r.complete(r.values)
	if complete || now > began+r.underWayMost() {
		r.openLanes()
		return now
	}
	if !known && now < began+2*time.Second {
		return now + orderSoon
	}
	if now > began+2*time.Second && l.said < began {
		l.said = now
		r.log.Info("keys in order: waiting for messages that are under way elsewhere", zap.Duration("at_most", r.underWayMost()))
	}
	return now + orderLook
}

// shutLanes lets nothing begin that arrives from now on, until what is under way is here.
func (r *Runner) shutLanes(now time.Duration) {
	r.buf.mu.Lock()
	defer r.buf.mu.Unlock()
	if l := r.buf.lanes; l != nil {
		if !l.shut {
			l.mine = r.buf.top // else what has come since waits on
		}
		l.shutAt(now)
	}
}

func (l *lanes) shutAt(now time.Duration) {
	l.shut, l.since, l.upTo = true, now, 0
	l.alarm.by(0)
}

// complete tells whether it is known what was under way when the lanes were shut, and whether all of that is here, or settled.
func (r *Runner) complete(ctx context.Context) (known, all bool) {
	b := r.buf
	b.mu.Lock()
	_, later := b.splitLocked(b.lanes.upTo)
	b.mu.Unlock()
	pin := r.pull.pin.ours()
	info, err := r.consumerInfo(ctx)
	if err != nil || !info.Created.Equal(r.bound.info.Created) || info.Delivered.Consumer == 0 {
		return false, false
	}
	if pinnedClient(info) != pin { // nobody says so while there is no message for anybody: two that wait for one another would do so for ever
		r.lostPin(pin)
		return false, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lanes.upTo == 0 {
		b.lanes.upTo, later = info.Delivered.Stream, 0
	}
	// What came later than that was counted before the server was asked, and can't have been settled since; what came before is counted now. So nothing that arrives
	// meanwhile is taken for what is missing.
	here, _ := b.splitLocked(b.lanes.upTo)
	all = info.NumAckPending-later <= here || info.AckFloor.Stream >= b.lanes.upTo
	if all {
		b.lanes.noneMissing(b.lanes.upTo)
	}
	return true, all
}

// splitLocked counts what is held up to a sequence, and beyond.
func (b *buffer) splitLocked(upTo uint64) (here, later int) {
	for d := range b.held.all() {
		if d.msg.Sequence <= upTo {
			here++
		}
	}
	return here, b.held.len() - here
}

// openLanes lets the first of each key begin, in stream order.
func (r *Runner) openLanes() {
	b := r.buf
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lanes
	l.shut = false
	var ready []*delivery
	for _, ln := range l.byKey {
		for d := l.next(ln); d != nil; d = l.next(ln) { // more than one only of those without a key
			ready = append(ready, d)
		}
	}
	sortBySequence(ready)
	for _, d := range ready {
		b.queue.push(d)
	}
	b.wakeAllLocked()
	r.pullAlarm.by(0)
}

// findMissing lets keys go on that wait for a message which was settled elsewhere, or which has not come for so long that somebody else must have it. It
// tells whether some still wait.
func (r *Runner) findMissing(now time.Duration) (some bool) {
	floor := r.floor()
	b := r.buf
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.lanes.missed {
		return false
	}
	b.lanes.missed = false
	var late []uint64
	for _, ln := range b.lanes.byKey {
		if len(ln.missing) == 0 {
			continue
		}
		if ln.until == 0 {
			ln.until = now + 4*r.leaseTime() + orderSlack // it may be passed on once or twice
		}
		if now >= ln.until {
			late = append(late, ln.missing...)
			ln.missing = ln.missing[:0]
		}
		ln.missing = slices.DeleteFunc(ln.missing, func(seq uint64) bool { return seq <= floor })
		if len(ln.missing) > 0 {
			b.lanes.missed = true
		}
		b.runLocked(b.lanes.next(ln))
	}
	if len(late) > 0 {
		slices.Sort(late)
		r.log.Warn("keys go on without messages that were lost or handed back and have not come again: another process must have them", zap.Uint64s("sequences", late[:min(len(late), 20)]))
	}
	return b.lanes.missed
}

// keyOf asks for the key of a message. One whose key can't be told has none: it is not kept in order.
func (r *Runner) keyOf(d *delivery) (key string) {
	if r.cfg.Key == nil {
		return ""
	}
	returned := false
	defer func() {
		p := recover()
		if p == nil && !returned { // runtime.Goexit, which takes the goroutine that reads with it
			r.fail(errKeyEnds)
			go r.read()
			return
		}
		if p != nil {
			r.counters.panics.Add(1)
			key = ""
			if why := shown(fmt.Sprint(p)); r.keyPanics.first(why, time.Now()) { // once a minute: it may do so for every message
				r.log.Error("Key panicked: the message is handled without regard to order", append(describe(d), zap.String("panic", why))...)
			}
		}
	}()
	key = r.cfg.Key(&d.msg)
	returned = true
	return key
}

var errKeyEnds = errors.New("worker: Key ended its goroutine")

// handBackStuck hands back, at a stop, what waits for a message that will not come to this process any more.
func (r *Runner) handBackStuck() {
	for _, d := range r.buf.takeStuck() {
		r.handBack(d, d.reply, 0)
	}
}

// takeStuck takes out what waits behind nothing that is under way.
func (b *buffer) takeStuck() []*delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lanes == nil || !b.closed {
		return nil
	}
	out := b.takeWaitingLocked(func(ln *lane) bool { return ln.head == 0 })
	sortBySequence(out)
	return out
}

// takeWaitingLocked takes out what waits in lanes, in no order.
func (b *buffer) takeWaitingLocked(which func(*lane) bool) (out []*delivery) {
	for _, ln := range b.lanes.byKey {
		if !which(ln) {
			continue
		}
		for _, d := range ln.waiting {
			b.held.remove(d)
			delete(b.lanes.of, d.msg.Sequence)
			out = append(out, d)
		}
		b.lanes.behind -= len(ln.waiting)
		clear(ln.waiting)
		ln.waiting = ln.waiting[:0]
	}
	b.more.Broadcast()
	return out
}
