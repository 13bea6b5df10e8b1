package worker

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// Of the processes on a pinned consumer one works, the others stand by with their pulls open (nats-server 2.11, priority policy
// pinned_client). The server gives the pin to a pull that names none, when there is a message for it, and writes its id into every
// delivery; from then on it serves pulls that name this id and lets the others wait. It takes the pin back when no pull has named it for
// the pin's time, when it is told to (UNPIN), and when it restarts or the consumer's leader moves; a pull that names an old id is answered
// with 423. It does not take it back when a connection is gone. Source: nats-server 2.15, consumer.go (nextWaiting, setPinnedTimer,
// processNextMsgRequestLocked); seen.

const (
	pinHeader = "Nats-Pin-Id"
	pinGroup  = "worker"               // of a consumer that is made here
	pinPlace  = "pin-"                 // begins the last token of where pulls are answered that only keep the pin
	pinExpiry = 100 * time.Millisecond // of those
)

// pin is what a Runner knows of the pin of its consumer.
type pin struct {
	id        atomic.Pointer[string] // ours; nil: we stand by
	elsewhere atomic.Bool            // another has it, as of the last look at the consumer
	asked     time.Duration          // when a request named it last; guarded by buffer.mu
}

func (p *pin) ours() string {
	if id := p.id.Load(); id != nil {
		return *id
	}
	return ""
}

// standsBy tells whether another process is to work, as far as is known here: this one was not given the pin, or has lost it.
func (r *Runner) standsBy() bool { return r.cfg.PinnedTTL > 0 && r.pull.pin.id.Load() == nil }

// pinElsewhere tells whether another process has the pin. It is no where nobody has it, as behind a start when nothing has come yet.
func (r *Runner) pinElsewhere() bool { return r.standsBy() && r.pull.pin.elsewhere.Load() }

// sawPin takes the pin's id off a delivery. Where it is new this process works from now on: keys wait until what another has held is settled, or here.
func (r *Runner) sawPin(m *nats.Msg, now time.Duration) {
	id := m.Header.Get(pinHeader)
	if delete(m.Header, pinHeader); len(m.Header) == 0 {
		m.Header = nil // as it is stored
	}
	if id == "" || id == r.pull.pin.ours() {
		return
	}
	r.pull.mu.Lock()
	r.pull.pin.asked = now
	r.pull.mu.Unlock()
	r.pull.pin.id.Store(&id)
	r.shutAllLanes(now)
	r.log.Info("pinned: this process works, others stand by", zap.Duration("pinned_ttl", r.cfg.PinnedTTL))
	r.pullAlarm.by(now)
	if child := r.replays.Load(); child != nil {
		child.pullAlarm.by(0)
	}
}

// shutAllLanes lets nothing begin until what was under way elsewhere is here: also not what has been here before, and comes again.
func (r *Runner) shutAllLanes(now time.Duration) {
	r.buf.mu.Lock()
	defer r.buf.mu.Unlock()
	if l := r.buf.lanes; l != nil {
		l.mine = 0
		l.shutAt(now)
	}
}

// underWayMost is how long what another process held may be under way: until its lease ends. Where it was pinned, has lost the pin and
// lives, it may finish what runs; all others get nothing meanwhile, so that is waited for.
func (r *Runner) underWayMost() time.Duration {
	if r.cfg.PinnedTTL > 0 {
		return r.cfg.HandleTimeout + r.leaseTime() + orderSlack
	}
	return r.leaseTime() + orderSlack
}

// noneMissing says that what is not here up to a sequence is settled.
func (l *lanes) noneMissing(upTo uint64) {
	for _, ln := range l.byKey {
		ln.missing = slices.DeleteFunc(ln.missing, func(seq uint64) bool { return seq <= upTo })
	}
}

// lostPin is called when the server says that an id is not the pin's any more. What runs here goes on, under lease, and is settled; where
// keys are kept in order what has not begun is handed back, since whoever works now waits for it.
func (r *Runner) lostPin(id string) {
	p := &r.pull
	had := p.pin.id.Load()
	if had == nil || *had != id || !p.pin.id.CompareAndSwap(had, nil) {
		return
	}
	p.mu.Lock()
	stopped := p.stopped
	p.mu.Unlock()
	if stopped {
		return // and has given it up itself
	}
	r.log.Info("not pinned any more: this process stands by, another works")
	if r.buf.lanes == nil {
		return
	}
	r.handBackAgain()
	for _, d := range r.buf.takeBack() {
		r.handBack(d, d.reply, 0)
	}
}

// pinAnswered takes the answer to a request of keepPin. It returns false where it is none.
func (r *Runner) pinAnswered(place, code string) bool {
	id, ok := strings.CutPrefix(place, pinPlace)
	if ok && code == "423" {
		r.lostPin(id)
		r.pullAlarm.by(0)
	}
	return ok
}

// keepPin keeps the pin while nothing is pulled because all slots are busy, or in a pause: a request that names it, with too few bytes for any message.
func (r *Runner) keepPin(now time.Duration) (next time.Duration) {
	p := &r.pull
	id := p.pin.ours()
	p.mu.Lock()
	defer p.mu.Unlock()
	if id == "" || p.stopped {
		return never
	}
	if due := p.pin.asked + p.limits.pinnedTTL/3; now < due {
		return due
	}
	p.pin.asked = now
	answer := strings.TrimSuffix(r.pullSubjects[0], "0") + pinPlace + id
	_ = r.nc.PublishRequest(r.subjects.next, answer, pullBody(1, 1, pinExpiry, 0, p.limits.group, id)) // without a connection the next one is sent soon
	return now + p.limits.pinnedTTL/3
}

// unpin gives the pin up at a stop, so that the next process works at once. The server's request names no id, so it is asked first whose the pin is.
func (r *Runner) unpin() {
	id := r.pull.pin.ours()
	if id == "" || !r.nc.IsConnected() {
		return
	}
	info, err := r.consumerInfo(r.values)
	if err != nil || pinnedClient(info) != id {
		return
	}
	subject := r.subjects.prefix + "CONSUMER.UNPIN." + r.cfg.Stream + "." + r.cfg.Consumer
	var answer any
	err = r.request(r.values, subject, []byte(`{"group":"`+pinGroupOf(info.Config)+`"}`), &answer)
	var denied *PermissionError
	switch {
	case errors.As(err, &denied):
		r.log.Warn("the pin can't be given up: another process works when pinned_ttl is over", zap.String("allow", subject),
			zap.Duration("pinned_ttl", info.Config.PinnedTTL))
	case err != nil:
		r.log.Warn("the pin was not given up: another process works when pinned_ttl is over", zap.Error(err), zap.Duration("pinned_ttl", info.Config.PinnedTTL))
	}
}

// sawPinned notes whose the pin is.
func (p *pin) sawPinned(i *jetstream.ConsumerInfo) {
	p.elsewhere.Store(pinnedClient(i) != p.ours())
}

// pinnedClient is the id of the pin; "" where nobody has it.
func pinnedClient(i *jetstream.ConsumerInfo) string {
	if len(i.PriorityGroups) == 0 {
		return ""
	}
	return i.PriorityGroups[0].PinnedClientID
}

// setPinned writes the part of a consumer's configuration that pins it; with 0 it is not pinned. A group that it has stays.
func setPinned(c *jetstream.ConsumerConfig, ttl time.Duration) {
	if ttl == 0 {
		c.PriorityPolicy, c.PriorityGroups, c.PinnedTTL = jetstream.PriorityPolicyNone, nil, 0
		return
	}
	c.PriorityPolicy, c.PinnedTTL = jetstream.PriorityPolicyPinned, ttl
	if len(c.PriorityGroups) == 0 {
		c.PriorityGroups = []string{pinGroup}
	}
}

// pinGroupOf is the group that pulls name; "" where the consumer has none.
func pinGroupOf(c jetstream.ConsumerConfig) string {
	if c.PriorityPolicy == jetstream.PriorityPolicyNone || len(c.PriorityGroups) == 0 {
		return ""
	}
	return c.PriorityGroups[0]
}

// priorityName is a priority policy in the server's words.
func priorityName(p jetstream.PriorityPolicy) string {
	b, err := p.MarshalJSON()
	if p == jetstream.PriorityPolicyNone || err != nil {
		return "none"
	}
	return strings.Trim(string(b), `"`)
}

// reviewPinned checks that the consumer is pinned where the configuration says so, and only there.
func reviewPinned(c Config, have jetstream.ConsumerConfig, refuse finding) {
	name := priorityName(have.PriorityPolicy)
	switch pinned := have.PriorityPolicy == jetstream.PriorityPolicyPinned; {
	case c.PinnedTTL > 0 && !pinned:
		refuse(true, "consumer %q has priority policy %s, and PINNED_TTL (%v) wants pinned_client: BIND=update sets it (nats-server 2.11 or later; "+
			"workers that run without PINNED_TTL end then)", c.Consumer, name, c.PinnedTTL)
	case c.PinnedTTL == 0 && pinned:
		refuse(true, "consumer %q is pinned (priority policy pinned_client, groups %s): set PINNED_TTL, or take that away with BIND=update",
			c.Consumer, strings.Join(have.PriorityGroups, ","))
	case c.PinnedTTL == 0 && len(have.PriorityGroups) > 0:
		refuse(true, "consumer %q has priority policy %s (groups %s): a worker asks without a group, which the server refuses; BIND=update takes that away",
			c.Consumer, name, strings.Join(have.PriorityGroups, ","))
	}
}
