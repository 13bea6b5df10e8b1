package worker

import (
	"context"

	"github.com/ackfloor/ackfloor/internal/denied"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// A consumer's new leader hands out again, to the first who asks, what was settled in the moment of the change, and what was not stamped. So whoever settles and
// whoever pulls has to know of it: all wait for a while with pulling, in which all settle again and reserve what they hold. It is told by
//
//   - an advisory of the new leader, which goes out before it serves pulls (nats-server 2.15, processConsumerLeaderChangeWithAssignment), where the worker may
//     subscribe to that;
//   - a status, on a pull that is open as the old leader goes (409 Leadership Change or Server Shutdown): a worker that handles quickly has none for most of the
//     time, since its pulls are filled at once, and one whose slots are all busy has none either;
//   - an answer that nobody listens (503) to what is sent between the two;
//   - a look at the consumer.

const electedSubject = "$JS.EVENT.ADVISORY.CONSUMER.LEADER_ELECTED." // nats-server 2.15, JSAdvisoryConsumerLeaderElectedPre

// watchLeader subscribes to the advisories of the consumer's new leaders. Without the right to it the worker has to make do with the rest.
func (r *Runner) watchLeader() (end func()) {
	if !r.conf.moves {
		return func() {}
	}
	subject := electedSubject + r.cfg.Stream + "." + r.cfg.Consumer
	s, err := r.nc.Subscribe(subject, r.guarded("leader", func(*nats.Msg) { r.settleBeforePull(settleFirst) }))
	if err != nil {
		return func() {} // the connection is closed: others tell
	}
	end = func() { _ = s.Unsubscribe() }
	flush, cancel := context.WithTimeout(r.values, requestWait)
	defer cancel()
	if r.nc.FlushWithContext(flush) != nil {
		return end // not known: it has an effect, or none
	}
	replicated := r.bound.info.Cluster != nil && len(r.bound.info.Cluster.Replicas) > 0 // a single replica has no advisories, also when its server restarts
	if about, publish, ok := denied.Of(r.nc.LastError()); !ok || publish || about != subject {
		r.pull.mu.Lock()
		r.pull.told = replicated
		r.pull.mu.Unlock()
		return end
	}
	end() // else it would be denied anew after each reconnect
	if replicated {
		r.log.Warn("not told when the consumer has a new leader: what is settled or arrives in that moment may be handled twice", zap.String("allow_subscribe", subject))
	}
	return func() {}
}

// sawNobody is called when nobody listened to something that was sent to the consumer: it has no leader now, and then perhaps a new one, which hands out again what
// is not settled.
func (r *Runner) sawNobody() {
	p := &r.pull
	p.mu.Lock()
	p.gap = r.conf.moves
	p.suspect = true
	p.notBefore = max(p.notBefore, r.clock.now()+randomWait(askAgainWait))
	at := p.notBefore
	p.mu.Unlock()
	r.pullAlarm.by(at)
}

// leaderLocked takes in who leads the consumer, and tells whether that may be another one than at the last look.
func (p *puller) leaderLocked(info *jetstream.ConsumerInfo) (moved bool) {
	if info.Cluster == nil || info.Cluster.Leader == "" {
		return p.gap
	}
	moved = p.gap || p.leader != "" && p.leader != info.Cluster.Leader
	p.leader = info.Cluster.Leader
	return moved
}

// blindLocked tells whether the consumer's leader may have moved since a message came, and nobody said so: then its first stamp has to reserve it too. A server of
// our own connection is another thing: the reconnect tells of its restart.
func (r *Runner) blindLocked(d *delivery) bool {
	return r.conf.moves && !r.pull.told && d.stamped == 0 && (r.pull.open == 0 || d.received < r.pull.sight)
}
