package worker

import (
	"strconv"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// stampEarly is how long a message is held before its lease is extended for the first time. The server stores a delivery with the
// message's publish time (nats-server 2.15, deliverMsg passes it to updateDelivered), so after a restart or a change of
// leader everything in flight that was published longer than ack_wait ago is handed out again at once, unless a +WPI has stored the
// true time before. On a replicated consumer each is a Raft entry, so what is settled sooner gets none.
const stampEarly = 250 * time.Millisecond

// hangs is how long behind its handle timeout a handler counts as hung, or a quarter of ack_wait: it is not waited for any more.
const hangs = 500 * time.Millisecond

// stampAfter is when a new delivery is stamped: at once where it will need it anyway, because handlers take long or none has
// ended yet, else after stampEarly.
func stampAfter(average, ackWait time.Duration) time.Duration {
	if average == 0 || average >= stampEarly/2 {
		return 0
	}
	return min(stampEarly, ackWait/3)
}

// leaseTime is the consumer's ack_wait, as of the last look.
func (r *Runner) leaseTime() time.Duration { return time.Duration(r.ackWait.Load()) }

// tendLeases extends what is due, ends handlers whose time is over, and gives up what can't be kept.
func (r *Runner) tendLeases(now time.Duration) time.Duration {
	var over []overdue
	var hung []*delivery
	next := never
	connected := r.nc.IsConnected()
	b := r.buf
	b.mu.Lock()
	for d := range b.held.all() {
		if d.gone {
			continue
		}
		if d.running && !d.expired && now >= d.attempt.limit {
			d.expired = true
			if b.special {
				b.lostLocked(d)
			}
			over = append(over, overdue{d, true, d.beside, ackfloor.ErrHandleTimeout, describe(d)})
		}
		if at := d.attempt.limit + min(hangs, r.leaseTime()/4); d.expired && d.running && !d.noted && now >= at {
			d.noted = true
			hung = append(hung, d)
		} else if d.expired && !d.noted {
			next = min(next, at)
		}
		if now >= d.leaseEnd {
			b.dropLocked(d)
			if !d.expired {
				over = append(over, overdue{d, d.running, d.beside && d.running, ackfloor.ErrLeaseLost, describe(d)})
			}
			continue
		}
		next = min(next, d.leaseEnd)
		if d.expired {
			continue
		}
		if d.running {
			next = min(next, d.attempt.limit)
		}
		if !connected {
			continue // the reconnect makes every stamp due
		}
		if now >= d.stampDue {
			r.stampLocked(d, now)
		}
		next = min(next, d.stampDue)
	}
	b.mu.Unlock()
	for _, o := range over {
		r.endAttempt(o)
		if r.source != nil {
			r.source.buf.hangs(o.d)
		}
	}
	for _, d := range hung {
		r.noteTimeout(d)
	}
	return next
}

// stampLocked extends a lease. Under the lock, which a slot takes before it settles: a +WPI behind a NAK would start its delay anew, as ack_wait.
func (r *Runner) stampLocked(d *delivery, now time.Duration) {
	d.stampDue = now + r.leaseTime()/3
	body := wpiBody
	if d.unsure || r.blindLocked(d) {
		body = reserveBody(r.leaseTime())
	}
	if d.unsure && r.movingLocked() {
		d.stampDue = now + settleFirst/2 // again: the old leader may take it and forget it, and the new one not listen yet
	}
	_ = r.nc.PublishRequest(d.reply, r.stampSubject(d.msg.Sequence, now), body) // what is not answered is seen by leaseEnd
}

// overdue is a message whose time is over.
type overdue struct {
	d       *delivery
	running bool  // else it waited, or was kept: there is no handler to tell
	quiet   bool  // the first of its batch is told of
	cause   error // ErrHandleTimeout or ErrLeaseLost
	fields  []zap.Field
}

// endAttempt ends a handler's context because its time is over or its lease is lost.
func (r *Runner) endAttempt(o overdue) {
	if o.quiet {
		if o.cause == ackfloor.ErrLeaseLost {
			r.counters.leasesLost.Add(1)
		}
	} else if o.cause == ackfloor.ErrHandleTimeout {
		r.log.Warn("the handle timeout has passed: the handler's context is ended, its lease no longer extended",
			append(o.fields, zap.Duration("handle_timeout", r.cfg.HandleTimeout))...)
	} else {
		r.counters.leasesLost.Add(1)
		r.log.Warn("a lease is lost: the server did not answer for ack_wait, another worker may have the message",
			append(o.fields, zap.Duration("ack_wait", r.leaseTime()))...)
	}
	if o.running {
		o.d.attempt.end(o.cause)
	}
}

// stampSubject is where the server answers a +WPI: with the sequence and the moment in it, since the answer says from when the new lease runs.
func (r *Runner) stampSubject(seq uint64, now time.Duration) string {
	return r.answers + ".w" + strconv.FormatUint(seq, 10) + "." + strconv.FormatInt(int64(now), 10)
}

// onAnswer takes the server's answers to settlements and stamps.
func (r *Runner) onAnswer(m *nats.Msg) {
	r.answersIn.Add(1)
	defer r.answersOut.Add(1)
	r.at("answer")
	token := m.Subject[len(r.answers)+1:]
	if token[0] != 'w' {
		if first, nobody := r.conf.answered(token, m); nobody {
			r.sawNobody(first)
		}
		return
	}
	s, t, _ := strings.Cut(token[1:], ".")
	seq, ok := parseUint(s)
	sent, ok2 := parseUint(t)
	if !ok || !ok2 {
		return
	}
	nobody := byNobody(m) // listens for acks now
	began := time.Duration(sent)
	r.buf.mu.Lock()
	if d := r.buf.held.get(seq); d != nil {
		if nobody {
			began = d.received
			d.stampDue = r.clock.now() + nobodyWait
			r.leases.by(d.stampDue)
		} else {
			d.leaseEnd = max(d.leaseEnd, time.Duration(sent)+r.leaseTime())
			d.stamped = time.Duration(sent)
			d.unsure = d.unsure && r.movingLocked() // it may have been the old leader's answer
		}
	}
	r.buf.mu.Unlock()
	if nobody {
		r.sawNobody(began)
	}
}

// sureAfter is how long ago a stamp was answered that has been stored and replicated by now: the answer by itself proves neither.
const sureAfter = time.Second

// stampAll makes every lease due now: after a reconnect, and when the consumer's leader has moved. What was not stamped before, or just then, is reserved.
func (r *Runner) stampAll() {
	now := r.clock.now()
	r.buf.mu.Lock()
	for d := range r.buf.held.all() {
		d.stampDue = 0
		d.unsure = d.stamped == 0 || now-d.stamped < sureAfter
	}
	n := r.buf.held.len()
	r.buf.mu.Unlock()
	if n > 0 {
		r.leases.by(0)
	}
}
