package worker

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// effect is what a status on a pull means for the worker.
type effect int

const (
	alive        effect = iota // heartbeat
	ended                      // the pull is over; its header tells what it left
	leaderMoved                // ask again, but settle first
	tooLarge                   // the next message is larger than the pull's bytes
	overLimit                  // the consumer's limits on requests: read them anew
	crowded                    // too many pulls wait at the consumer
	deleted                    // the consumer is gone
	fault                      // terminal: a fault of ours, an old server, a push consumer
	wrongPin                   // the pin of a pinned consumer is another's
	nobody                     // no responders: loading, electing, or gone
	unknownState               // a status that this version does not know
)

// statusEffect maps a status line on a pull to its effect. Sources: nats-server 2.15 consumer.go (processNextMsgRequest, nextWaiting,
// processWaiting, checkPendingRequests, releaseAnyPendingRequests), jetstream.go (Server Shutdown), client.go (503).
func statusEffect(code, description string) effect {
	has := func(s string) bool { return strings.Contains(strings.ToLower(description), s) }
	switch code {
	case "100":
		return alive
	case "404", "408":
		return ended
	case "409":
		switch {
		case has("batch completed"):
			return ended
		case has("leadership change"), has("server shutdown"):
			return leaderMoved
		case has("message size exceeds maxbytes"):
			return tooLarge
		case has("exceeded maxrequest"):
			return overLimit
		case has("exceeded maxwaiting"):
			return crowded
		case has("consumer deleted"):
			return deleted
		case has("push based"):
			return fault
		}
		return unknownState
	case "400", "412":
		return fault
	case "423":
		return wrongPin
	case "503":
		return nobody
	}
	return unknownState
}

// onStatus takes a status: the end of a pull, or a word about it.
func (r *Runner) onStatus(m *nats.Msg) {
	code, text := m.Header.Get("Status"), m.Header.Get("Description")
	last := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	place, ok := parseUint(last)
	if r.pinAnswered(last, code) || !ok || place >= pullsMax {
		return
	}
	left, _ := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
	e := statusEffect(code, text)
	p := &r.pull
	now := r.clock.now()
	p.mu.Lock()
	rec := &p.pulls[place]
	p.heard = now
	if e == alive {
		p.missed = 0
		p.mu.Unlock()
		return
	}
	batch, pin := rec.batch, rec.pin
	p.mu.Unlock()
	if e == tooLarge && left < batch {
		e = ended // some have come: only what is left of its bytes is too little for the next one
	}
	if e != ended && left == 0 {
		left = batch
	}
	r.endPull(int(place), left)
	if e == wrongPin {
		r.lostPin(pin)
	}
	r.act(e, code, text)
	r.pullAlarm.by(0)
}

// act does what the status of an ended pull asks for.
func (r *Runner) act(e effect, code, text string) {
	p := &r.pull
	later := func(kind string, d time.Duration) {
		p.mu.Lock()
		p.countLocked(kind)
		p.suspect = true
		p.notBefore = max(p.notBefore, r.clock.now()+d)
		at := p.notBefore
		p.mu.Unlock()
		r.pullAlarm.by(at)
	}
	switch e {
	case ended, wrongPin:
		p.mu.Lock()
		p.missed = 0
		p.mu.Unlock()
	case leaderMoved:
		r.settleBeforePull(settleFirst)
	case tooLarge:
		p.mu.Lock()
		p.countLocked("too_large")
		p.alone = true
		p.mu.Unlock()
		r.log.Debug("a message is larger than a pull asks for: fetching it alone", zap.Int("pull_bytes", r.cfg.PullBytes))
	case overLimit:
		r.log.Warn("the consumer's limits on pull requests have changed: reading them anew", zap.String("status", text))
		later("limit", askAgainWait)
	case crowded:
		r.log.Warn("more pull requests wait at the consumer than its max_waiting allows", zap.String("status", text))
		later("max_waiting", r.cfg.PullExpiry)
	case deleted:
		r.fail(fmt.Errorf("%w: %q on stream %q", ErrConsumerDeleted, r.cfg.Consumer, r.cfg.Stream))
	case fault:
		r.fail(fmt.Errorf("worker: the server refuses to deliver from consumer %q: %s %s", r.cfg.Consumer, code, text))
	case nobody:
		later("nobody", randomWait(askAgainWait))
		r.sawNobody(r.clock.now())
	case unknownState:
		r.log.Warn("a status that this version does not know: asking again", zap.String("code", code), zap.String("status", text))
		later("unknown", time.Second)
	}
}
