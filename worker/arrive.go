package worker

import (
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// onPulled takes what arrives on the pull subscription: a delivery, or a status.
func (r *Runner) onPulled(m *nats.Msg) {
	st, ok := r.readReply(m.Reply)
	if !ok {
		defer r.buf.wake() // a message before this one may have left it to the next
		if m.Reply == "" {
			r.onStatus(m)
		} else {
			r.log.Error("a delivery whose reply subject is unreadable", zap.String("reply", m.Reply), zap.String("subject", m.Subject))
		}
		return
	}
	if st.consumerSeq <= r.lastSeq && !r.lookAtConsumer() {
		r.buf.wake()
		return // every delivery of one consumer has a higher number: this may be another of the same name
	}
	r.lastSeq = st.consumerSeq
	now := r.clock.now()
	d := r.slab.next()
	d.read(m, st, r.cfg.Stream, r.cfg.Consumer)
	d.received, d.leaseEnd = now, now+r.ackWait
	arrival, stampDue := r.arrived(d, now)
	switch arrival {
	case added:
		r.counters.received.Add(1)
		if st.deliveries > 1 {
			r.counters.redelivered.Add(1)
		}
		r.leases.by(stampDue)
	case heldAlready:
		r.counters.redelivered.Add(1)
		r.leases.by(now)
	case runsTooLong:
		r.counters.redelivered.Add(1)
		r.passOn(d)
	case settledAlready:
		r.counters.redelivered.Add(1)
		r.counters.skipped.Add(1)
		if denied := r.denied(r.subjects.next); denied != nil && r.cfg.Ack == AckSend {
			r.fail(denied) // nothing else would tell that plain acks are refused: every message would come again for ever
		}
		r.send(d, d.reply, verdict{kind: acked}, r.clock.now())
	case tooLate:
		r.send(d, d.reply, verdict{kind: returned}, r.clock.now())
	}
}

// readReply reads a delivery's reply subject. One in another form than a server gives to its own clients has come a longer way, on which
// acks may be lost one by one.
func (r *Runner) readReply(reply string) (stamp, bool) {
	if numbers, direct := strings.CutPrefix(reply, r.subjects.replies); direct {
		return parseNumbers(numbers)
	}
	st, ok := parseReply(reply)
	if ok {
		r.conf.noRuns()
	}
	return st, ok
}

// arrived takes a delivery in, and has the pull loop ask for more where there is room. It returns what the buffer said, and when the lease is
// extended first: d itself is other goroutines' from here on.
func (r *Runner) arrived(d *delivery, now time.Duration) (arrival, time.Duration) {
	p := &r.pull
	p.mu.Lock()
	p.asked = max(0, p.asked-1)
	p.missed = 0
	stampDue := now + stampAfter(r.buf.avg, r.ackWait)
	d.stampDue = stampDue
	a := r.buf.addLocked(d)
	if r.buf.sleepyLocked() && (r.buf.queue.len() >= wakeAt || r.lastArrived()) {
		r.buf.wakeLocked()
	}
	ask, room := r.askLocked(now)
	p.mu.Unlock()
	if room {
		r.post(ask)
	}
	return a, stampDue
}

// wakeAt is how many messages of a burst are taken in before a slot is woken for them: with handlers that do nothing, waking is what costs.
const wakeAt = 8

// lastArrived tells whether no further message has arrived behind the one that is being taken in: then it is the last of its burst.
func (r *Runner) lastArrived() bool {
	n, _, err := r.pullSub.Pending() // counts the present one
	return n <= 1 || err != nil
}

// passOn gives a redelivery back which this process can't take, since its handler for the same message has not ended. The first time
// at once: the server serves waiting pulls in turn, so another worker is next. When it comes back all the same, later.
func (r *Runner) passOn(d *delivery) {
	v := verdict{kind: returned}
	if d.bounced > 1 {
		v.delay = r.ackWait
	}
	r.send(d, d.reply, v, r.clock.now())
}
