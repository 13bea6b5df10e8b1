package worker

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	pullMargin   = time.Second            // how long after its expiry a pull without an end counts as lost
	askAgainWait = 50 * time.Millisecond  // after a 503; up to five times that
	prefetchMax  = 2048                   // of automatic prefetch
	waitMin      = 10 * time.Millisecond  // how long a message may wait behind others, automatic prefetch: at least,
	waitMax      = 250 * time.Millisecond // and at the most; between them four times what a confirmation takes
	pullsMax     = 2                      // open pulls
	longPull     = 2 * time.Second        // pulls that stay open longer ask for heartbeats,
	heartbeatMax = 5 * time.Second        // as often as this at least
	anySize      = 1 << 30                // bytes, more than a message may have: the server tells the end of a full pull only if it has a limit
	lookAnyway   = 5 * time.Second        // and in any case: somebody may change its ack_wait or its limits
	lookEvery    = 500 * time.Millisecond // while no pull is open, which would be told of a deletion, the consumer is looked at
)

// pull is a request for messages that is open at the server.
type pull struct {
	open      bool
	batch     int
	pin       string        // that it named
	heartbeat time.Duration // as often as this it is heard of; 0: not before its end
	alive     time.Duration // when it is given up unless something comes
	deadline  time.Duration // when it is given up whatever comes
}

// puller asks for as many messages as there is room for, and keeps count by the answers. Messages of all pulls arrive on one
// subscription and can't be told apart by pull, so asked counts them together; each pull's own end is told by a status.
type puller struct {
	mu        *sync.Mutex // the buffer's: a delivery changes both
	pulls     [pullsMax]pull
	open      int
	sight     time.Duration // since when at least one has been open: the old leader tells only an open pull that it goes
	leader    string        // of the consumer, as of the last look; "": not known, or everything was settled since
	gap       bool          // it may have had none since everything was settled
	watching  bool          // for advisories of new leaders,
	told      bool          // and there are some
	asked     int           // messages that may still come
	stopped   bool          // drain: no new pull
	alone     bool          // the next pull is for one message of any size
	suspect   bool          // look at the consumer before pulling again
	notBefore time.Duration
	settled   time.Duration // when settling began, after a reconnect or a change of leader; 0: it is done
	epoch     uint64        // of the connection for which everything was settled
	missed    int           // pulls that were given up in a row
	looked    time.Duration // when the consumer was looked at
	watched   time.Duration // when a pull was open last, or the consumer was looked at
	prefetch  int
	size      int           // of a message, bytes, moving average
	fresh     time.Duration // when a message came last that had not been delivered before
	heard     time.Duration // when anything came on a pull last
	limits    limits
	pin       pin
	ended     chan struct{} // a token when the last open pull has ended
	errors    map[string]uint64
}

// tendPulls is the pull loop's turn: it gives up pulls whose end never came, looks at the consumer where something is wrong, and
// asks for what there is room for.
func (r *Runner) tendPulls(now time.Duration) time.Duration {
	p := &r.pull
	if !r.nc.IsConnected() {
		return never // the reconnect wakes the loop
	}
	r.pull.mu.Lock()
	told := r.pull.epoch == r.conf.epoch()
	r.pull.mu.Unlock()
	if !told { // of a reconnect
		r.forgetPulls()
		r.settleBeforePull(settleFirst)
		return now + settleFirst
	}
	paused := r.endPause(now)
	next, lost := r.giveUpPulls(now)
	next = min(next, paused, r.keepPin(now))
	if lost {
		if denied := r.denied(r.subjects.next); denied != nil {
			r.fail(denied)
			return never
		}
	}
	p.mu.Lock()
	suspect, wait, stopped := p.suspect, p.notBefore, p.stopped
	p.mu.Unlock()
	if stopped {
		if suspect && now < wait {
			return min(next, wait)
		}
		if suspect {
			r.lookAtConsumer()
		}
		return next
	}
	if suspect && now >= wait || r.unwatched(now) {
		if !r.lookAtConsumer() {
			return now + 100*time.Millisecond
		}
		now = r.clock.now()
		p.mu.Lock()
		wait = p.notBefore // longer, if it has another leader
		p.mu.Unlock()
	}
	if now < wait {
		return min(next, wait)
	}
	if !r.settledFirst(now) {
		return min(next, now+settleLook)
	}
	p.mu.Lock()
	ask, room := r.askLocked(now)
	p.mu.Unlock()
	if room {
		return min(next, r.post(ask))
	}
	if next == never {
		return now + lookEvery
	}
	return next
}

// unwatched tells whether no pull has been open for a while and nobody looked, since all slots are busy; or nobody has looked for long.
func (r *Runner) unwatched(now time.Duration) bool {
	r.pull.mu.Lock()
	defer r.pull.mu.Unlock()
	if r.pull.open > 0 {
		r.pull.watched = now
	}
	return now-r.pull.watched >= lookEvery || now-r.pull.looked >= lookAnyway
}

// giveUpPulls drops pulls whose end is overdue: the server never got them, or lost them. It returns when the next one will be, and whether there was one.
func (r *Runner) giveUpPulls(now time.Duration) (next time.Duration, lost bool) {
	p := &r.pull
	p.mu.Lock()
	defer p.mu.Unlock()
	next = never
	for i := range p.pulls {
		rec := &p.pulls[i]
		if !rec.open {
			continue
		}
		alive := rec.alive
		if rec.heartbeat > 0 { // while messages come there are no heartbeats
			alive = max(alive, p.heard+2*rec.heartbeat+pullMargin)
		}
		if now >= alive || now >= rec.deadline {
			lost = true
			p.countLocked("lost")
			p.missed++
			p.suspect = true
			p.endLocked(i, 0, now)
			continue
		}
		next = min(next, alive, rec.deadline)
	}
	return next, lost
}

// endPull closes the record of a pull that left so many messages undelivered.
func (r *Runner) endPull(place, left int) {
	r.pull.mu.Lock()
	defer r.pull.mu.Unlock()
	r.pull.endLocked(place, left, r.clock.now())
}

func (p *puller) endLocked(place, left int, now time.Duration) {
	if !p.pulls[place].open {
		return
	}
	p.pulls[place] = pull{}
	p.watched = now
	p.open--
	p.asked = max(0, p.asked-left)
	if p.open == 0 {
		p.asked = 0 // whatever the statuses did not tell
		select {
		case p.ended <- struct{}{}:
		default:
		}
	}
}

func (p *puller) countLocked(kind string) { p.errors[kind]++ }

// forgetPulls is called when the server has lost our pulls: the connection was cut.
func (r *Runner) forgetPulls() {
	p := &r.pull
	p.mu.Lock()
	defer p.mu.Unlock()
	now := r.clock.now()
	for i := range p.pulls {
		p.endLocked(i, 0, now)
	}
}

// suspectConsumer has the pull loop look at the consumer: an answer came that does not fit.
func (r *Runner) suspectConsumer() {
	r.pull.mu.Lock()
	r.pull.suspect = true
	r.pull.mu.Unlock()
	r.pullAlarm.by(0)
}

func randomWait(base time.Duration) time.Duration { return base + rand.N(4*base) }
