package worker

import "time"

const (
	// settleFirst is how long nothing is pulled after a reconnect or a change of the consumer's leader: the server may have forgotten
	// who holds what, and hands it to the first who asks. In this time every worker sends again what it has settled and stamps what it holds.
	settleFirst = 250 * time.Millisecond
	settleLate  = 500 * time.Millisecond // at the most longer, behind a long outage: see othersBack
	settleMost  = time.Second            // and how long at the most, while what was settled before is not confirmed
	settleLook  = 20 * time.Millisecond  // how often it looks whether it is
)

// settleBeforePull is called after a reconnect or a change of leader: everything settled and unconfirmed is sent again, everything held is
// stamped, and only then is anything pulled.
func (r *Runner) settleBeforePull(wait time.Duration) {
	now := r.clock.now()
	r.pull.mu.Lock()
	r.pull.suspect = true
	if r.pull.settled == 0 {
		r.pull.notBefore = 0
	}
	r.pull.notBefore = max(r.pull.notBefore, now+wait) // a change of leader behind a reconnect does not shorten it
	r.pull.settled = max(now, 1)
	r.pull.leader, r.pull.gap = "", false
	r.pull.epoch = r.conf.epoch()
	r.pull.mu.Unlock()
	r.buf.serverMayHaveForgotten(now)
	r.shutLanes(now)
	r.conf.resendAll()
	r.stampAll()
	r.askOthers(now)
	r.pullAlarm.by(now + wait)
}

// settlingLocked holds from a reconnect, or a change of leader, until the first pull: what comes meanwhile comes on a pull from before. nats.go keeps
// what is published in the moment in which a connection is lost, and sends it first thing on the next one.
func (r *Runner) settlingLocked() bool { return r.pull.settled > 0 || r.pull.epoch != r.conf.epoch() }

// othersBack is how long it takes at the most until the other workers are connected again too, and have settled: the longer an outage was, the
// longer each waits between two tries (reconnectDelay).
func othersBack(outage time.Duration) time.Duration {
	return settleFirst + min(outage/16, settleLate)
}

// settledFirst tells whether everything that was settled before the reconnect or the change of leader is confirmed by now.
func (r *Runner) settledFirst(now time.Duration) bool {
	p := &r.pull
	p.mu.Lock()
	began := p.settled
	p.mu.Unlock()
	if began == 0 {
		return true
	}
	if r.conf.openSince() <= began && now < began+settleMost {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settled != began {
		return false // once more
	}
	p.settled = 0
	return true
}
