package worker

import (
	"fmt"
	"strings"
	"time"
)

// Acks that follow one another closely go out as a run: only the last has a reply subject, and its answer confirms all of them.
//
// That holds because a server takes the publishes of one connection in order, its consumer queues acks in that order and works
// the queue off one by one (nats-server 2.15: client.go readLoop, consumer.go pushAck and processInboundAcks), so the answer to
// the last comes after all were applied: as long as the connection is the same, leads to the server that has the consumer,
// and the consumer listened when the run began. Hence:
//
//   - runs are made on a consumer of a server without a cluster only. In a cluster the leader may move in the middle of a
//     run, and an ack that falls between two leaders is told by its own answer only.
//   - a run begins only when an ack was answered by itself on the same connection before, and counts only if the connection
//     was not made anew until its answer came. Otherwise its acks are sent again, each with a reply subject of its own.
//
// A run is closed by its 16th ack, or after 2 ms by sending the last ack again, with a reply subject.
type runs struct {
	allowed bool
	trusted uint64 // 1 + the reconnects of the connection on which an ack was answered; 0: none yet
	acks    []sent // the run that waits for its last ack
	epoch   uint64 // 1 + the reconnects when it began
	began   time.Duration
	last    time.Duration // when the last ack was sent
	made    uint64        // how many there were
}

const (
	runMax  = 16
	runGap  = 200 * time.Microsecond // acks that follow one another within this are a run
	runTime = 2 * time.Millisecond   // after which a run is closed
)

// joinLocked puts an ack into the run, or returns false if it has to have a reply subject: as the run's last, or since there is none.
func (c *confirmer) joinLocked(a sent, now time.Duration) bool {
	r := &c.runs
	if !r.allowed {
		return false
	}
	near := now-r.last < runGap
	r.last = now
	if len(r.acks) == 0 {
		if !near || r.trusted == 0 || r.trusted != c.epoch() {
			return false
		}
		r.began, r.epoch = now, r.trusted
		r.made++
		c.alarm.by(now + runTime)
	}
	if len(r.acks) == runMax-1 {
		return false
	}
	r.acks = append(r.acks, a)
	return true
}

// noRuns has every ack confirmed by itself from here on.
func (c *confirmer) noRuns() {
	c.mu.Lock()
	c.runs.allowed = false
	c.mu.Unlock()
	c.closeRun()
}

// epoch tells one making of the connection from the next: nats.go counts a reconnect before it writes anything on the new connection
// (nats.go 1.55, doReconnect), also what was published meanwhile.
func (c *confirmer) epoch() uint64 { return 1 + c.nc.Stats().Reconnects }

// trustLocked takes an answer's word: for a run only if the connection is still the one on which it began.
func (c *confirmer) trustLocked(s *settlement, now time.Duration) {
	if !c.runs.allowed {
		return
	}
	if len(s.run) > 0 {
		if s.epoch != c.epoch() {
			c.runs.trusted = 0
			c.scatterLocked(s, now)
		}
		return
	}
	if s.tries == 1 && c.runs.trusted == 0 && s.epoch != 0 && s.epoch == c.epoch() {
		c.runs.trusted = s.epoch
	}
}

// scatterLocked gives every ack of a run a settlement of its own, due now.
func (c *confirmer) scatterLocked(s *settlement, now time.Duration) {
	if len(s.run) == 0 {
		return
	}
	for _, a := range s.run {
		c.openLocked(a, ackBody, now)
	}
	clear(s.run)
	s.run = s.run[:0]
	c.alarm.by(now)
}

// tendRunLocked closes a run that has been open long enough, and returns when the one that is open will be.
func (c *confirmer) tendRunLocked(now time.Duration) time.Duration {
	if len(c.runs.acks) == 0 {
		return never
	}
	if end := c.runs.began + runTime; now < end {
		return end
	}
	c.closeRunLocked(now)
	return never
}

// closeRun closes the run that is open, if any.
func (c *confirmer) closeRun() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeRunLocked(c.clock.now())
}

// closeRunLocked sends the run's last ack again, with a reply subject: acknowledging twice is harmless.
func (c *confirmer) closeRunLocked(now time.Duration) {
	n := len(c.runs.acks)
	if n == 0 {
		return
	}
	last := c.runs.acks[n-1]
	c.runs.acks = c.runs.acks[:n-1]
	s := c.startLocked(last, ackBody, false, 0, now)
	if c.nc.PublishRequest(s.to, s.subject, ackBody) != nil {
		s.due = now + offlineWait
	}
	c.alarm.by(s.due)
}

var (
	ackBody  = []byte("+ACK")
	nakPlain = []byte("-NAK")
	wpiBody  = []byte("+WPI")
)

// nakBody is a NAK after which the message comes back when d has passed.
func nakBody(d time.Duration) []byte {
	if d <= 0 {
		return nakPlain
	}
	return fmt.Appendf(nil, `-NAK {"delay":%d}`, d.Nanoseconds())
}

// reserveBody extends a lease as +WPI does, and takes the message off the queue of what the server is about to deliver again, where a +WPI leaves it (nats-server
// 2.15, processNak with a delay: removeFromRedeliverQueue, and a lease that ends after the delay; progressUpdate). A server that starts, or a consumer's new
// leader, puts everything there at once that was not stamped and was published longer than ack_wait ago. One that is not pending any more it ignores.
func reserveBody(lease time.Duration) []byte { return nakBody(lease) }

// termBody is a TERM with a reason, which the server puts into its advisory. A line break would end nothing, but reads badly.
func termBody(reason string) []byte {
	reason = strings.Join(strings.Fields(reason), " ")
	if len(reason) > 256 {
		reason = strings.ToValidUTF8(reason[:256], "")
	}
	return []byte("+TERM " + reason)
}
