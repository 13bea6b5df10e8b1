package worker

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	answerWait    = 600 * time.Millisecond // an answer that has not come by then: the settlement is sent again, and the consumer looked at
	answerWaitMax = 5 * time.Second        // the longest of these waits
	answerSoonest = 100 * time.Millisecond // and the shortest, of a consumer whose leader may move: see patience
	hurryWait     = 100 * time.Millisecond // these waits where others are about to pull
	nobodyWait    = 50 * time.Millisecond  // after a 503; up to twice that
	nakPatience   = 5 * time.Second        // a NAK without an answer is sent again for so long: its message comes back anyway
	idBits        = 20                     // of a settlement's number: its place; the rest counts how often that was replaced
	maxOpen       = 8192                   // settlements without an answer, above which nothing is pulled
	offlineWait   = 100 * time.Millisecond // when the connection takes nothing
)

// settlement is an ack, nak or term whose confirmation is awaited, with the acks of the run that its answer confirms too. They are few
// and used again: a reply subject that the server has not seen lately misses its subject cache, which costs a third of the throughput.
type settlement struct {
	id      uint32
	subject string // where the server answers
	open    bool
	sent           // what is settled
	run     []sent // acks sent before it without a reply subject of their own
	body    []byte
	epoch   uint64        // of the connection: when the run began, or when it was sent by itself and no answer had come yet; else 0
	first   time.Duration // when it was sent first
	due     time.Duration // when it is sent again
	tries   int           // how often it was sent
	refused int           // how often the answer was that nobody listens
	silent  int           // of the sendings, the last ones, which nothing has answered
	delay   time.Duration // of a NAK with a delay
	nak     bool
	waiting bool // its answer is overdue, and it is not sent again: see mayBeAnothers
}

// sent is one message that was settled.
type sent struct {
	to  string // the reply subject of its delivery
	seq uint64 // in the stream
}

// confirmer sends settlements and keeps those that are not confirmed, each until the server has answered.
type confirmer struct {
	clock clock
	nc    *nats.Conn
	inbox string
	alarm *alarm
	open  atomic.Int64 // messages settled and not confirmed
	rtt   atomic.Int64 // nanoseconds, moving average

	mu    sync.Mutex
	hurry time.Duration // until then others are about to pull, perhaps what is settled here
	all   []*settlement // by place
	free  []*settlement // the one used last on top
	runs  runs
	stats confirmStats
	moves bool                          // the consumer's leader may move, or its server restart, and the connection not tell; set once
	empty chan struct{}                 // a token when open has become 0
	told  atomic.Pointer[func(Settled)] // nil: nobody is told
	notes []Settled                     // to be told
}

// confirmStats counts since the start.
type confirmStats struct {
	resends   uint64 // settlements sent again
	confirmed uint64
	givenUp   uint64 // NAKs whose effect is unknown, and acks of deliveries that the server has forgotten: their messages come back by themselves
}

func newConfirmer(nc *nats.Conn, c clock, inbox string) *confirmer {
	return &confirmer{clock: c, nc: nc, inbox: inbox, alarm: newAlarm(), empty: make(chan struct{}, 1)}
}

// ack acknowledges a message: by itself, or as part of a run.
func (c *confirmer) ack(to string, seq uint64, now time.Duration) {
	c.open.Add(1)
	c.mu.Lock()
	if c.joinLocked(sent{to, seq}, now) {
		// Under the lock, so that nobody closes the run, and has it confirmed, before this ack is on its way.
		if c.nc.Publish(to, ackBody) != nil {
			c.closeRunLocked(now)
		}
		c.mu.Unlock()
		return
	}
	s := c.startLocked(sent{to, seq}, ackBody, false, 0, now)
	c.mu.Unlock()
	c.publish(s, to, ackBody, now)
}

// settle sends a nak or a term, and returns at once; the rest is the loop's.
func (c *confirmer) settle(to string, body []byte, seq uint64, nak bool, delay, now time.Duration) {
	c.open.Add(1)
	c.mu.Lock()
	s := c.startLocked(sent{to, seq}, body, nak, delay, now)
	c.mu.Unlock()
	c.publish(s, to, body, now)
}

// startLocked opens a settlement. An ack takes the run along that waits for one.
func (c *confirmer) startLocked(a sent, body []byte, nak bool, delay, now time.Duration) *settlement {
	s := c.openLocked(a, body, now)
	s.nak, s.delay, s.due = nak, delay, now+c.patience()
	if len(c.runs.acks) > 0 && !s.nak {
		s.run, c.runs.acks = c.runs.acks, s.run[:0]
		s.epoch = c.runs.epoch
	} else if c.runs.allowed && c.runs.trusted == 0 {
		s.epoch = c.epoch()
	}
	return s
}

func (c *confirmer) publish(s *settlement, to string, body []byte, now time.Duration) {
	due := now + c.patience()
	if c.nc.PublishRequest(to, s.subject, body) != nil {
		due = now + offlineWait
		c.mu.Lock()
		s.due = due
		c.mu.Unlock()
	}
	c.alarm.by(due)
}

// patience is how long an answer is waited for at first. A leader that has just lost its place drops acks without a word. So
// where that may be, it is little more than answers take, and shorter than what others wait before they pull.
func (c *confirmer) patience() time.Duration {
	if !c.moves {
		return answerWait
	}
	return min(max(16*c.roundTrip(), answerSoonest), answerWait)
}

// openLocked opens a settlement that counts as sent once, and is due.
func (c *confirmer) openLocked(a sent, body []byte, now time.Duration) *settlement {
	s := c.takeLocked()
	*s = settlement{id: s.id, subject: s.subject, run: s.run, open: true, sent: a, body: body, first: now, due: now, tries: 1, silent: 1}
	return s
}

func (c *confirmer) takeLocked() *settlement {
	if n := len(c.free); n > 0 {
		s := c.free[n-1]
		c.free = c.free[:n-1]
		return s
	}
	s := c.make(uint32(len(c.all)))
	c.all = append(c.all, s)
	return s
}

func (c *confirmer) make(id uint32) *settlement {
	return &settlement{id: id, subject: c.inbox + "." + strconv.FormatUint(uint64(id), 10)}
}

// releaseLocked makes a place free again. One that was sent more than once, or is given up, may still get an answer to an earlier sending, which
// must not confirm what takes the place next: it gets a new number.
func (c *confirmer) releaseLocked(s *settlement, answered bool) {
	s.open = false
	left := c.open.Add(-int64(1 + len(s.run)))
	clear(s.run)
	s.run = s.run[:0]
	if s.tries > 1 || !answered {
		place := s.id & (1<<idBits - 1)
		s = c.make(s.id + 1<<idBits)
		c.all[place] = s
	}
	s.sent, s.body = sent{}, nil
	c.free = append(c.free, s)
	if left == 0 {
		select {
		case c.empty <- struct{}{}:
		default:
		}
	}
}

// byNobody tells whether an answer is the server's that nobody listened to what was sent.
func byNobody(m *nats.Msg) bool { return m.Header != nil && m.Header.Get("Status") != "" }

// answered takes the server's answer to a settlement. An empty message is a confirmation; a status means that nobody
// listens for acks at this moment, which is none (nats-server 2.15: no responders while a consumer loads or elects): then first is when the settlement was sent first.
func (c *confirmer) answered(token string, m *nats.Msg) (first time.Duration, nobody bool) {
	n, ok := parseUint(token)
	if !ok {
		return 0, false
	}
	c.mu.Lock()
	defer c.unlockTelling()
	place := uint32(n) & (1<<idBits - 1)
	if int(place) >= len(c.all) {
		return 0, false
	}
	s := c.all[place]
	if s.id != uint32(n) || !s.open {
		return 0, false
	}
	now := c.clock.now()
	if byNobody(m) {
		c.runs.trusted = 0
		c.scatterLocked(s, now)
		s.due, s.silent = now+nobodyWait+rand.N(nobodyWait), 0
		s.refused++
		c.alarm.by(s.due)
		return s.first, true
	}
	if s.tries == 1 {
		rtt := c.rtt.Load()
		c.rtt.Store(rtt + (int64(now-s.first)-rtt)/16)
	}
	c.trustLocked(s, now)
	c.stats.confirmed += uint64(1 + len(s.run))
	c.noteLocked(s, true)
	c.releaseLocked(s, true)
	return 0, false
}

// roundTrip returns the moving average of the time that a confirmation takes.
func (c *confirmer) roundTrip() time.Duration { return time.Duration(c.rtt.Load()) }
