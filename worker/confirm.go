package worker

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	answerWait    = 600 * time.Millisecond // an answer that has not come by then: the settlement is sent again, and the consumer looked at
	answerWaitMax = 5 * time.Second        // the longest of these waits
	nobodyWait    = 50 * time.Millisecond  // after a 503; up to twice that
	nakPatience   = 5 * time.Second        // a NAK without an answer is sent again for so long: its message comes back anyway
	idBits        = 20                     // of a settlement's number: its place; the rest counts how often that was replaced
	maxOpen       = 8192                   // settlements without an answer, above which nothing is pulled
	offlineWait   = 100 * time.Millisecond // when the connection takes nothing
)

// settlement is an ack, nak or term whose confirmation is awaited. They are few and used again: a reply subject that the
// server has not seen lately misses its subject cache, which costs a third of the throughput.
type settlement struct {
	id      uint32
	subject string // where the server answers
	open    bool
	to      string // the reply subject of the delivery that is settled
	body    []byte
	seq     uint64
	first   time.Duration // when it was sent first
	due     time.Duration // when it is sent again
	tries   int
	delay   time.Duration // of a NAK with a delay
	nak     bool
}

// confirmer sends settlements and keeps those that are not confirmed, each until the server has answered.
type confirmer struct {
	clock clock
	nc    *nats.Conn
	inbox string
	alarm *alarm

	mu    sync.Mutex
	all   []*settlement // by place
	free  []*settlement // the one used last on top
	open  int
	rtt   time.Duration
	stats confirmStats
	empty chan struct{} // a token when open has become 0
}

// confirmStats counts since the start.
type confirmStats struct {
	resends   uint64 // settlements sent again
	confirmed uint64
	givenUp   uint64 // NAKs whose effect is unknown; their messages come back by themselves
}

func newConfirmer(nc *nats.Conn, c clock, inbox string) *confirmer {
	return &confirmer{clock: c, nc: nc, inbox: inbox, alarm: newAlarm(), empty: make(chan struct{}, 1)}
}

// send settles a delivery and returns at once; the rest is the loop's.
func (c *confirmer) send(to string, body []byte, seq uint64, nak bool, delay time.Duration) {
	now := c.clock.now()
	c.mu.Lock()
	s := c.takeLocked()
	s.open, s.to, s.body, s.seq, s.nak, s.delay = true, to, body, seq, nak, delay
	s.first, s.due, s.tries = now, now+answerWait, 1
	c.open++
	c.mu.Unlock()
	c.alarm.by(now + answerWait)
	if c.nc.PublishRequest(to, s.subject, body) != nil {
		c.retryAt(s, now+offlineWait)
	}
}

func (c *confirmer) retryAt(s *settlement, due time.Duration) {
	c.mu.Lock()
	s.due = due
	c.mu.Unlock()
	c.alarm.by(due)
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

// releaseLocked makes a place free again. One that was sent more than once may still get an answer to an earlier sending, which
// must not confirm what takes the place next: it gets a new number.
func (c *confirmer) releaseLocked(s *settlement) {
	s.open = false
	c.open--
	if s.tries > 1 {
		place := s.id & (1<<idBits - 1)
		s = c.make(s.id + 1<<idBits)
		c.all[place] = s
	}
	s.to, s.body = "", nil
	c.free = append(c.free, s)
	if c.open == 0 {
		select {
		case c.empty <- struct{}{}:
		default:
		}
	}
}

// answered takes the server's answer to a settlement. An empty message is a confirmation; a status means that nobody
// listens for acks at this moment, which is none (nats-server 2.15: no responders while a consumer loads or elects).
func (c *confirmer) answered(token string, m *nats.Msg) {
	n, ok := parseUint(token)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	place := uint32(n) & (1<<idBits - 1)
	if int(place) >= len(c.all) {
		return
	}
	s := c.all[place]
	if s.id != uint32(n) || !s.open {
		return
	}
	now := c.clock.now()
	if m.Header != nil && m.Header.Get("Status") != "" {
		s.due = now + nobodyWait + rand.N(nobodyWait)
		c.alarm.by(s.due)
		return
	}
	if s.tries == 1 {
		c.rtt += (now - s.first - c.rtt) / 16
	}
	c.stats.confirmed++
	c.releaseLocked(s)
}

// scan sends again what is due.
func (c *confirmer) scan(now time.Duration) time.Duration {
	next := never
	connected := c.nc.IsConnected()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == 0 {
		return never
	}
	for _, s := range c.all {
		if !s.open {
			continue
		}
		if s.due <= now {
			if s.nak && c.overLocked(s, now) {
				c.stats.givenUp++
				c.releaseLocked(s)
				continue
			}
			if connected {
				c.resendLocked(s, now)
			} else {
				s.due = now + answerWait // the reconnect makes all of it due
			}
		}
		next = min(next, s.due)
	}
	return next
}

// overLocked tells whether a NAK is not worth sending again: its message has come back, or will before it could.
func (c *confirmer) overLocked(s *settlement, now time.Duration) bool {
	if s.delay > 0 {
		return now-s.first >= s.delay
	}
	return now-s.first >= nakPatience
}

func (c *confirmer) resendLocked(s *settlement, now time.Duration) {
	s.tries++
	c.stats.resends++
	s.due = now + min(answerWait<<min(s.tries-1, 4), answerWaitMax)
	body := s.body
	if s.delay > 0 {
		body = nakBody(s.delay - (now - s.first))
	}
	if c.nc.PublishRequest(s.to, s.subject, body) != nil {
		s.due = now + offlineWait
	}
}

// resendAll makes every open settlement due now: after a reconnect or a change of leader it may be forgotten.
func (c *confirmer) resendAll() {
	c.mu.Lock()
	for _, s := range c.all {
		if s.open {
			s.due = 0
		}
	}
	open := c.open
	c.mu.Unlock()
	if open > 0 {
		c.alarm.by(0)
	}
}

// count returns how many settlements are not confirmed, and the moving average of the time that a confirmation takes.
func (c *confirmer) count() (open int, rtt time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open, c.rtt
}

// unanswered tells whether a settlement was sent again for want of an answer.
func (c *confirmer) unanswered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.all {
		if s.open && s.tries > 1 {
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
	for _, s := range c.all {
		if s.open {
			out = append(out, s.seq)
		}
	}
	return out
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

// termBody is a TERM with a reason, which the server puts into its advisory. A line break would end nothing, but reads badly.
func termBody(reason string) []byte {
	reason = strings.Join(strings.Fields(reason), " ")
	if len(reason) > 256 {
		reason = strings.ToValidUTF8(reason[:256], "")
	}
	return []byte("+TERM " + reason)
}
