package worker

import (
	"time"

	"go.uber.org/zap"
)

// pause is a time in which nothing is started and nothing pulled, because a handler has said that what it needs is out of order.
type pause struct {
	since time.Duration // when the first handler said so
	until time.Duration // then one message is tried
	probe *delivery     // it, while it runs
	tried int           // how many have been
	why   string
}

// pauseLocked puts a message whose handler asked for a pause back where it was, and begins or prolongs the pause. It returns false where
// that can't be: the message is no longer ours, or the work ends.
func (b *buffer) pauseLocked(d *delivery, now, delay time.Duration, why string) (begins, ok bool) {
	if d.gone || b.closed {
		return false, false
	}
	until := now + delay
	switch p := b.pause; {
	case p == nil:
		begins = true
		b.pause = &pause{since: now, until: until, why: why}
	case p.probe == d:
		p.probe, p.until, p.why = nil, until, why
		p.tried++
	case p.probe == nil:
		p.until = max(p.until, until)
	}
	b.special = true
	again := d.copyLocked()
	b.held.put(again)
	if d.past != nil && d.past.alone {
		b.aside.push(again)
	} else if begins || b.pause.tried == 0 {
		b.queue.pushFront(again)
	} else {
		b.queue.push(again) // another is tried next: the trouble may be this one's alone
	}
	b.endRunLocked(d, now)
	return begins, true
}

// pauseFor settles nothing: the message stays held, and is handled again when the pause ends. It returns false where that can't be.
func (r *Runner) pauseFor(d *delivery, delay time.Duration, err error, now time.Duration) bool {
	why := shortError(err)
	r.buf.mu.Lock()
	begins, ok := r.buf.pauseLocked(d, now, delay, why)
	if r.reader.within == d {
		r.reader.within = nil
	}
	r.buf.mu.Unlock()
	if !ok {
		return false
	}
	r.counters.pauses.Add(1)
	r.pullAlarm.by(now + delay)
	if begins {
		r.log.Warn("paused: a handler says that what it needs is out of order; nothing is pulled, what is held stays leased", append(describe(d),
			zap.Duration("delay", delay), zap.String("error", why))...)
	}
	return true
}

// endPause lets one message be tried where a pause's time is over. It returns when that is, or never.
func (r *Runner) endPause(now time.Duration) time.Duration {
	r.buf.mu.Lock()
	defer r.buf.mu.Unlock()
	p := r.buf.pause
	if p == nil || p.probe != nil {
		return never
	}
	if now < p.until {
		return p.until
	}
	if r.buf.held.len() == r.buf.kept { // what was to be tried is another's by now
		r.buf.pause = nil
		r.buf.ordinaryLocked()
	}
	r.buf.wakeAllLocked()
	return never
}

// pausedLocked tells how many messages to ask for in a pause: none, but one where all that are held have been tried in vain, since the
// trouble may be theirs alone.
func (r *Runner) pausedLocked() int {
	p, held := r.buf.pause, r.buf.held.len()-r.buf.kept
	if p.probe != nil || r.pull.stopped || r.pull.open > 0 || held > min(p.tried, r.cfg.Concurrency) {
		return 0
	}
	return 1
}

// sayResumed writes that a pause has ended.
func (r *Runner) sayResumed(p *pause, now time.Duration) {
	if p != nil {
		r.log.Info("resumed: a message was tried, and the pause is over", zap.Duration("paused_for", now-p.since))
		r.pullAlarm.by(0)
	}
}
