package worker

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"go.uber.org/zap"
)

// crashDeaths is how many processes have to die in which a message ran alone until it is convicted. Before it runs alone two deliveries
// of it have come to nothing, so it costs five deaths at the most, and one that another message caused is no evidence.
const crashDeaths = 3

var (
	errCrash   = errors.New("the process ended each time that a handler had it, also when it ran alone")
	errNoWord  = errors.New("its attempts are used up, and none of them ended with a word: killed, hung, or lost on the way")
	errUnknown = errors.New("given up before; its dead letter had not been written")
)

// admit is called with a message that the server has delivered before, when it is its turn. It finds out what is known of it, and returns
// whether its handler is to be called now.
func (r *Runner) admit(d *delivery) bool {
	past := d.past
	switch {
	case past.alone && !past.marked && r.source == nil: // a replay is marked when it is its turn among its source's messages
		r.markAlone(d)
		return true
	case past.admitted:
		return true // it was paused
	}
	past.admitted = true
	rec, can := r.look(d)
	attempt := rec.Failures + rec.Deaths + 1
	switch can {
	case recordLater: // not charged with more than is known, and not the last either
		attempt = max(1, min(attempt, r.cfg.MaxAttempts-1))
	case recordNever:
		attempt = int(min(past.deliveries, math.MaxInt32))
	}
	r.buf.mu.Lock()
	past.record, past.known = rec, can == recordRead
	d.msg.Attempt = attempt
	r.buf.mu.Unlock()
	if r.letters != nil || past.known { // without either nothing tells that its handler was ever called
		if reason, err := r.condemned(rec, attempt); err != nil {
			r.bury(d, reason, err)
			return false
		}
	}
	if past.known && (rec.Deaths > 0 || past.deliveries > rec.Known+2 && !past.behind) {
		past.alone = true
	}
	switch {
	case r.buf.lanes != nil && r.retryLater(d, min(time.Until(rec.Until), rec.Until.Sub(rec.Last))): // clocks of two hosts may differ
		return false
	case past.alone:
		r.buf.setAside(d)
		return false
	}
	return true
}

// tooLate settles a message that is nobody's here any more when it has been looked up, which may take a while: the drain's grace has ended, or its lease
// is lost. Its handler is not called.
func (r *Runner) tooLate(d *delivery) bool {
	why := d.attempt.ended()
	if !errors.Is(why, ackfloor.ErrStopping) && !errors.Is(why, ackfloor.ErrLeaseLost) {
		return false
	}
	r.settle(d, why, r.clock.now())
	return true
}

// look finds out what is known of a message.
func (r *Runner) look(d *delivery) (record, reading) {
	if rec, ok := r.records.recall(d.msg.Sequence, d.published(), d.past.deliveries); ok {
		return rec, recordRead
	}
	r.records.mend(r.values, r.clock, d)
	return r.records.read(r.values, r.clock, d.msg.Sequence, d.published())
}

// condemned tells why a message is given up without being handled again, if it is.
func (r *Runner) condemned(rec record, attempt int) (reason string, why error) {
	switch {
	case rec.Verdict != "" && rec.Error != "":
		return rec.Verdict, errors.New(rec.Error)
	case rec.Verdict != "":
		return rec.Verdict, errUnknown
	case rec.Deaths >= crashDeaths, attempt > r.cfg.MaxAttempts && rec.Deaths > 0:
		return deadletter.ReasonCrash, fmt.Errorf("%w (%d times)", errCrash, rec.Deaths)
	case attempt <= r.cfg.MaxAttempts:
		return "", nil
	case rec.Error != "":
		return exhausted(rec.Reason), errors.New(rec.Error)
	}
	return deadletter.ReasonExhausted, errNoWord
}

// bury gives a message up that a slot has, without calling its handler.
func (r *Runner) bury(d *delivery, reason string, err error) {
	now := r.clock.now()
	if reason == deadletter.ReasonCrash {
		r.counters.suspected.Add(1)
	}
	r.buf.mu.Lock()
	r.buf.notProbeLocked(d) // nothing was tried
	r.buf.mu.Unlock()
	v := verdict{kind: givenUp, reason: reason}
	if r.letters != nil {
		e := r.entryOf(d, v, err)
		text := shortError(err)
		e.change = func(rec *record) { // no attempt has failed now
			if rec.Verdict, rec.Error = reason, text; rec.First.IsZero() {
				rec.First = time.Now()
				rec.Last = rec.First
			}
		}
		if r.addLetter(e) {
			if !r.keep(e, now) {
				r.send(d, "", verdict{kind: late}, now)
			}
			return
		}
	}
	reply, gone := r.finish(d, now, true)
	if gone {
		v.kind = late
	}
	r.logFailure(d, v, err)
	r.send(d, reply, v, now)
}

// markAlone writes down, before its handler is called, that a suspect is about to run alone: when that is found by the next worker, the
// process has died of it.
func (r *Runner) markAlone(d *delivery) {
	past := d.past
	rec := past.record
	rec.Deaths++
	rec.Known = past.deliveries
	if err := r.records.write(r.values, r.clock, d.msg.Sequence, &rec); err != nil || r.records.broken.Load() != 0 {
		return // it runs as any other
	}
	past.marked = true
	r.log.Warn("a suspect: delivered again and again without a word, so it runs alone", append(describe(d), zap.Uint64("deliveries", past.deliveries),
		zap.Int("deaths", past.record.Deaths))...)
}
