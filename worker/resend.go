package worker

import (
	"time"
)

// scan sends again what is due.
func (c *confirmer) scan(now time.Duration) time.Duration {
	connected := c.nc.IsConnected()
	c.mu.Lock()
	defer c.unlockTelling()
	next := c.tendRunLocked(now)
	for i := 0; i < len(c.all); i++ { // it may grow on the way
		s := c.all[i]
		if !s.open {
			continue
		}
		if s.due <= now {
			if s.nak && s.over(now) {
				c.stats.givenUp++
				c.noteLocked(s, false)
				c.releaseLocked(s, false)
				continue
			}
			switch {
			case !connected:
				s.due = now + answerWait // the reconnect makes all of it due
			case s.mayBeAnothers() && now >= c.hurry:
				s.waiting, s.due = true, s.first+nakPatience
			default:
				c.resendLocked(s, now)
			}
		}
		next = min(next, s.due)
	}
	return next
}

// over tells whether a NAK is not worth sending again: its message has come back, or will before it could. One that nobody has ever taken has no effect: behind its
// delay, which the retry has waited for by then, it is sent without one.
func (s *settlement) over(now time.Duration) bool {
	if s.delay > 0 && s.refused < s.tries {
		return now-s.first >= s.delay
	}
	return now-s.first >= nakPatience
}

// mayBeAnothers tells whether a message that was given back at once may be in another worker's hands by now: some sending of its NAK was not refused. The server would
// take it from that one for a second NAK, since it does not look which delivery that is of (nats-server 2.15, processNak). So it is sent again only behind a
// reconnect or a change of leader, which are what loses NAKs. If it was lost all the same, the message comes back after ack_wait.
func (s *settlement) mayBeAnothers() bool { return s.nak && s.delay == 0 && s.refused < s.tries }

func (c *confirmer) resendLocked(s *settlement, now time.Duration) {
	c.scatterLocked(s, now)
	s.tries++
	s.silent++
	c.stats.resends++
	s.due = now + min(c.patience()<<min(s.silent-1, 6), answerWaitMax)
	if now < c.hurry {
		s.due, s.silent = now+hurryWait, 0
	}
	body := s.body
	if s.delay > 0 {
		body = nakBody(s.delay - (now - s.first))
	}
	if c.nc.PublishRequest(s.to, s.subject, body) != nil {
		s.due = now + offlineWait
	}
}

// resendAll makes every open settlement due now: after a reconnect or a change of leader it may be forgotten. A leader that is not quite one yet
// drops acks without a word (nats-server 2.15, processAck), so for as long as others may be waiting to pull they are sent again and again.
func (c *confirmer) resendAll() {
	now := c.clock.now()
	c.mu.Lock()
	c.runs.trusted = 0
	c.closeRunLocked(now)
	c.hurry = now + settleMost
	for _, s := range c.all {
		if s.open {
			s.due = 0
		}
	}
	c.mu.Unlock()
	if c.open.Load() > 0 {
		c.alarm.by(0)
	}
}

// forget drops settlements that were sent in vain of messages behind the last one that the server says it has delivered: it has forgotten that it
// delivered them, and ignores acks for them without an answer (nats-server 2.15, processAckMsg). It will deliver them again.
func (c *confirmer) forget(delivered uint64) {
	c.mu.Lock()
	defer c.unlockTelling()
	for _, s := range c.all {
		if s.open && (s.tries > 1 || s.waiting) && s.seq > delivered {
			c.stats.givenUp++
			c.noteLocked(s, false)
			c.releaseLocked(s, false)
		}
	}
}

// openSince returns when the settlement was sent that has waited longest for its confirmation.
func (c *confirmer) openSince() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest := never
	for _, s := range c.all {
		if s.open {
			oldest = min(oldest, s.first)
		}
	}
	return oldest
}

// unanswered tells whether a settlement was sent again for want of an answer, or waits for one for long.
func (c *confirmer) unanswered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.all {
		if s.open && (s.tries > 1 || s.waiting) {
			return true
		}
	}
	return false
}

// sequences returns the stream sequences of what is not confirmed.
func (c *confirmer) sequences() []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []uint64
	add := func(acks ...sent) {
		for _, a := range acks {
			out = append(out, a.seq)
		}
	}
	add(c.runs.acks...)
	for _, s := range c.all {
		if s.open {
			add(s.run...)
			add(s.sent)
		}
	}
	return out
}

// countResent counts acks that were sent again and are not awaited.
func (c *confirmer) countResent(n uint64) {
	c.mu.Lock()
	c.stats.resends += n
	c.mu.Unlock()
}
