package worker

import "github.com/nats-io/nats.go/jetstream"

// A change of the consumer's leader is told by a status, on a pull that is open at that moment (409 Leadership Change or Server Shutdown). A Runner whose slots are
// all busy has none. So it looks who leads, has acks without an answer sent again soon, and reserves with the first stamp what came unseen.

// leaderLocked takes in who leads the consumer, and tells whether that is another server than at the last look.
func (p *puller) leaderLocked(info *jetstream.ConsumerInfo) (moved bool) {
	if info.Cluster == nil || info.Cluster.Leader == "" {
		return false
	}
	moved = p.leader != "" && p.leader != info.Cluster.Leader
	p.leader = info.Cluster.Leader
	return moved
}

// blindLocked tells whether the consumer's leader may have moved since a message came, and nobody said so: then its first stamp has to reserve it too. A server of
// our own connection is another thing: the reconnect tells of its restart.
func (r *Runner) blindLocked(d *delivery) bool {
	return r.conf.moves && d.stamped == 0 && (r.pull.open == 0 || d.received < r.pull.sight)
}
