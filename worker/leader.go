package worker

import (
	"errors"
	"time"

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
	if !replicated(r.bound.info) || r.cfg.Connection.APIPrefix != "" { // one replica has no advisories, and another account's are not ours
		return func() {}
	}
	subject := electedSubject + r.cfg.Stream + "." + r.cfg.Consumer
	unsubscribe, err := r.listen(subject, r.guarded("leader", r.onElected))
	var denied *PermissionError
	if errors.As(err, &denied) {
		r.log.Warn("not told when the consumer has a new leader: what is settled or arrives in that moment may be handled twice", zap.String("allow_subscribe", subject))
	}
	if err != nil { // also where it is not known: what comes is taken, and nothing rests on it
		return unsubscribe
	}
	r.pull.mu.Lock()
	r.pull.watching = r.cfg.Connection.Domain == "" // else it is not known whether they come this far
	r.pull.told = r.pull.watching
	r.pull.mu.Unlock()
	return unsubscribe
}

func (r *Runner) onElected(*nats.Msg) {
	r.at("elected")
	r.settleBeforePull(settleFirst)
}

func replicated(info *jetstream.ConsumerInfo) bool {
	return info.Cluster != nil && len(info.Cluster.Replicas) > 0
}

// sawNobody is called when nobody listened to something that was sent to the consumer, which was begun at a time: it has no leader now, and then perhaps a new one,
// which hands out again what is not settled. Where that goes on for long it says nothing of a leader any more: the user of an account may not reach the acks of another.
func (r *Runner) sawNobody(began time.Duration) {
	p := &r.pull
	now := r.clock.now()
	p.mu.Lock()
	p.suspect = true
	switch recent := r.conf.moves && now-began < nakPatience; {
	case recent && p.settled > 0: // the next one is not there yet
		p.notBefore = max(p.notBefore, now+settleFirst)
	case recent:
		p.gap = true
		p.notBefore = max(p.notBefore, now+randomWait(askAgainWait))
	}
	at := p.notBefore
	p.mu.Unlock()
	r.pullAlarm.by(at)
}

// leaderLocked takes in who leads the consumer, and tells whether that may be another one than at the last look.
func (p *puller) leaderLocked(info *jetstream.ConsumerInfo) (moved bool) {
	p.told = p.watching && replicated(info)
	if info.Cluster == nil || info.Cluster.Leader == "" {
		return p.gap
	}
	moved = p.gap || p.leader != "" && p.leader != info.Cluster.Leader
	p.leader = info.Cluster.Leader
	return moved
}

// movingLocked tells whether the consumer may be getting a new leader just now.
func (r *Runner) movingLocked() bool { return r.conf.moves && r.settlingLocked() }

// blindLocked tells whether the consumer's leader may have moved since a message came, and nobody said so: then its first stamp has to reserve it too. A server of
// our own connection is another thing: the reconnect tells of its restart.
func (r *Runner) blindLocked(d *delivery) bool {
	return r.conf.moves && !r.pull.told && d.stamped == 0 && (r.pull.open == 0 || d.received < r.pull.sight)
}
