package worker

import (
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/nats-io/nats.go"
)

// delivery is a message that this process holds: it waits for a slot, or a handler runs. Its fields belong to the slot that
// runs it, except those below mu, which the buffer's lock guards.
type delivery struct {
	attempt attempt
	msg     ackfloor.Message // its Attempt is guarded like what follows
	past    *history         // nil: the server had not delivered it before

	// guarded by buffer.mu
	reply    string        // of its newest delivery
	received time.Duration // when that came
	stampDue time.Duration // when its lease has to be extended next
	leaseEnd time.Duration // until then the server won't give it to another
	stamped  time.Duration // when the last stamp was sent that was answered; 0: none was
	unsure   bool          // the server may be about to give it to another: see reserveBody
	running  bool          // a slot has it; else it waits, or is kept
	kept     bool          // its handler has returned; something is written down before it is settled
	gone     bool          // the lease is lost, or it was handed back: no longer ours
	expired  bool          // the handle timeout has passed: its lease is not extended
	noted    bool          // that has been written down, since its handler has not returned
	beside   bool          // it is one of a batch, and not its first
	inline   bool          // the reader runs its handler, not a slot
	passed   bool          // meanwhile another reader has the turn
	bounced  uint8         // redeliveries in a row that were passed on to another worker; the last came at stampDue
}

// startLocked marks it as running: a handler has it from now on.
func (d *delivery) startLocked(now, handleTimeout time.Duration) {
	d.running, d.attempt.limit = true, now+handleTimeout
}

// deliveriesLocked is how often the server has delivered it, as far as that is known here.
func (d *delivery) deliveriesLocked() uint64 {
	n := uint64(d.attempt.newest)
	if d.past != nil {
		n = max(n, d.past.deliveries)
	}
	return max(n, 1)
}

// published is, with the sequence, what tells a message from one of a stream of the same name that was made anew.
func (d *delivery) published() int64 { return d.msg.Published.UnixNano() }

// slabSize is how many deliveries are allocated at once. A handler that keeps a message for long keeps its neighbours in memory too, so it is small.
const slabSize = 8

// slab hands out deliveries, for one goroutine.
type slab struct{ free []delivery }

func (s *slab) next() *delivery {
	if len(s.free) == 0 {
		s.free = make([]delivery, slabSize)
	}
	d := &s.free[0]
	s.free = s.free[1:]
	return d
}

// read fills a delivery with what the server sent.
func (d *delivery) read(m *nats.Msg, st stamp, r *Runner) {
	*d = delivery{
		attempt: attempt{r: r, d: d},
		msg: ackfloor.Message{
			Subject:   m.Subject,
			Data:      m.Data,
			Header:    m.Header,
			Stream:    r.cfg.Stream,
			Consumer:  r.cfg.Consumer,
			Sequence:  st.streamSeq,
			Attempt:   int(st.deliveries),
			Published: st.time(),
			Pending:   st.pending,
		},
		reply: m.Reply,
	}
	if st.deliveries > 1 {
		d.past = &history{deliveries: st.deliveries}
	}
}

// fifo is a queue in a ring that grows.
type fifo struct {
	ring []*delivery
	head int
	n    int
}

func (q *fifo) len() int { return q.n }

// first is what pop would return.
func (q *fifo) first() *delivery {
	if q.n == 0 {
		return nil
	}
	return q.ring[q.head]
}

func (q *fifo) push(d *delivery) {
	if q.n == len(q.ring) {
		grown := make([]*delivery, max(64, 2*q.n)) // a power of two: the index is a mask away
		for i := range q.n {
			grown[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = d
	q.n++
}

// pushFront puts one back that was taken.
func (q *fifo) pushFront(d *delivery) {
	q.push(d) // makes room
	q.head = (q.head - 1) & (len(q.ring) - 1)
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = nil
	q.ring[q.head] = d
}

func (q *fifo) pop() *delivery {
	if q.n == 0 {
		return nil
	}
	d := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return d
}
