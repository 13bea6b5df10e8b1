package worker

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// onPulled takes what arrives on the pull subscription: a delivery, or a status. It returns a delivery that the reader is to handle itself.
// now is the time, or 0 where the caller does not know it.
func (r *Runner) onPulled(m *nats.Msg, now time.Duration) *delivery {
	st, ok := r.readReply(m.Reply)
	if !ok {
		if m.Reply == "" {
			r.onStatus(m)
		} else {
			r.log.Error("a delivery whose reply subject is unreadable", zap.String("reply", m.Reply), zap.String("subject", m.Subject))
		}
		r.buf.wake() // a message before this one may have left it to the next
		return nil
	}
	if st.consumerSeq <= r.lastSeq && !r.lookAtConsumer() {
		r.buf.wake()
		return nil // every delivery of one consumer has a higher number: this may be another of the same name
	}
	r.lastSeq = st.consumerSeq
	if now == 0 {
		now = r.clock.now()
	}
	if r.cfg.PinnedTTL > 0 {
		r.sawPin(m, now)
	}
	d := r.slab.next()
	d.read(m, st, r)
	d.received, d.leaseEnd = now, now+r.leaseTime()
	arrival, inline := r.arrived(d, r.keyOf(d), now)
	switch arrival {
	case added:
		r.counters.received.Add(1)
		if st.deliveries > 1 {
			r.counters.redelivered.Add(1)
		}
		if inline {
			return d
		}
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
		r.tell(d, d.reply, verdict{kind: acked}, now)
	case heldElsewhere:
		r.counters.leftToAnother.Add(1)
	case tooEarly:
		r.handBack(d, d.reply, settleMost)
	case tooLate:
		r.handBack(d, d.reply, 0)
	}
	return nil
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

// arrived takes a delivery in, wakes a slot for it unless the reader is to handle it itself, and asks for more where there is room. Where d was
// added and not marked for the reader, it is other goroutines' from here on.
func (r *Runner) arrived(d *delivery, key string, now time.Duration) (a arrival, inline bool) {
	p, b := &r.pull, r.buf
	b.mu.Lock()
	p.asked = max(0, p.asked-1)
	p.missed = 0
	p.heard = now
	if d.past == nil {
		p.fresh = now
	}
	p.size += (len(d.msg.Data) + overhead - p.size) / 16
	stampDue := now + stampAfter(b.avg, r.leaseTime())
	d.stampDue = stampDue
	if a = b.arrivalLocked(d); a == added && d.past != nil && r.settlingLocked() {
		if a = tooEarly; b.lanes != nil && key != "" {
			b.lanes.miss(b.lanes.lane(key), d.msg.Sequence)
		}
	}
	if a == heldAlready && r.movingLocked() {
		b.held.get(d.msg.Sequence).unsure = true
	}
	if a == added {
		d.unsure = r.movingLocked() // it may have been sent by the old leader
		b.holdLocked(d)
		if b.lanes == nil || b.lanes.join(d, key) {
			if inline = r.inlineLocked(d, now); !inline {
				b.queue.push(d)
			}
			if r.batch != nil {
				r.fillLocked(d)
			}
		}
	}
	if r.batch == nil && b.sleepyLocked() && (b.queue.len() >= wakeAt || len(r.reader.in) == 0) {
		b.wakeLocked()
	}
	ask, room := r.askLocked(now)
	b.mu.Unlock()
	if inline {
		r.reader.alarm.by(now + inlineLimit)
	}
	r.leases.by(stampDue)
	if room {
		r.post(ask)
	}
	return a, inline
}

// overhead is what a message takes beside its payload, bytes, roughly.
const overhead = 1024

// wakeAt is how many messages of a burst are taken in before a slot is woken for them: with handlers that do nothing, waking is what costs. The last
// of a burst always wakes.
const wakeAt = 8

// passOn gives a redelivery back which this process can't take, since its handler for the same message has not ended. At once at first: the
// server serves waiting pulls in turn, so it goes from one worker to the next until one can take it, and past another pull of our own. When
// it has been everywhere and comes back all the same, later. (Only ever later would not do: of workers whose pulls expire in step, the first
// to pull again is given everything that comes back one by one.)
func (r *Runner) passOn(d *delivery) {
	v := verdict{kind: returned}
	if d.bounced > bounces {
		v.delay = r.leaseTime()/2 + rand.N(r.leaseTime())
	}
	r.tell(d, d.reply, v, r.clock.now())
}

// bounces is how many redeliveries in a row are passed on at once.
const bounces = 2
