package worker

import (
	"time"

	"go.uber.org/zap"
)

// While dead letters can't be written, nothing is terminated: the messages are kept, one is tried at a time, and the others are handled as always.

// failedLocked puts an entry off whose letter could not be written.
func (r *Runner) failedLocked(e *entry, err error) {
	b := r.books
	now := r.clock.now()
	r.counters.letterFailures.Add(1)
	if b.failed == nil || now >= b.said+sayAgain {
		b.said = now
		r.log.Error("a dead letter could not be written: its message is kept, not terminated, and it is tried again", append(describe(e.d),
			zap.String("dead_letters", r.cfg.DeadLetter), zap.String("error", shown(err.Error())))...)
	}
	if b.failed == nil {
		b.wait = letterAgain
	} else {
		b.wait = min(2*b.wait, letterLatest)
	}
	b.failed = err
	b.next = now + b.wait
	r.laterLocked(e)
}

// laterLocked leaves a letter for later. Where that becomes too much, the message goes back, and its record says what it is.
func (r *Runner) laterLocked(e *entry) {
	b := r.books
	most, bytes := r.keptLimit()
	for _, o := range b.later {
		bytes -= len(o.d.msg.Data)
	}
	if len(b.later) >= most || bytes < len(e.d.msg.Data) {
		b.putOffLocked(e, keptAgain)
		return
	}
	b.later = append(b.later, e)
	r.stuckLocked()
	b.alarm.by(b.next)
}

// stuckLocked tells the held set how many messages are kept for as long as dead letters can't be written: the others go on all the same.
func (r *Runner) stuckLocked() {
	r.buf.mu.Lock()
	defer r.buf.mu.Unlock()
	r.buf.stuck, r.buf.stuckSize = len(r.books.later), 0
	for _, e := range r.books.later {
		r.buf.stuckSize += len(e.d.msg.Data)
	}
}

// putOffLocked hands a message back whose letter could not be written: whoever gets it next tries again.
func (b *bookkeeper) putOffLocked(e *entry, delay time.Duration) {
	e.letter, e.v = nil, verdict{kind: returned, delay: delay}
	b.ready = append(b.ready, e)
	b.more.Signal()
}

// keptLimit is how many messages, and bytes of them, are kept while dead letters can't be written.
func (r *Runner) keptLimit() (messages, bytes int) {
	r.pull.mu.Lock()
	defer r.pull.mu.Unlock()
	messages, bytes = keptMost, 2*r.cfg.PullBytes
	if c := r.pull.limits.capacity; c > 0 {
		messages = min(messages, max(1, c/4))
	}
	return messages, bytes
}

// wroteLetterLocked is called when a letter is written: what waited for that goes on.
func (r *Runner) wroteLetterLocked() {
	b := r.books
	if b.failed == nil {
		return
	}
	b.failed = nil
	r.log.Info("dead letters can be written again", zap.String("dead_letters", r.cfg.DeadLetter), zap.Int("waiting", len(b.later)))
	b.ready, b.later = append(b.ready, b.later...), nil
	r.stuckLocked()
	b.more.Broadcast()
}

// tendLetters tries the letter that has waited longest, when it is time.
func (r *Runner) tendLetters(now time.Duration) time.Duration {
	b := r.books
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed == nil || len(b.later) == 0 {
		return never
	}
	if now < b.next {
		return b.next
	}
	b.next = now + letterWait + b.wait // unless its outcome says otherwise
	b.later[0].now = true
	b.ready = append(b.ready, b.later[0])
	b.later[0], b.later = nil, b.later[1:]
	r.stuckLocked()
	b.more.Signal()
	return b.next
}

// failing tells why dead letters can't be written, "" when they can.
func (b *bookkeeper) failing() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed == nil {
		return ""
	}
	return shown(b.failed.Error())
}
