package worker

import (
	"strconv"
	"time"
)

// A server that was killed may have forgotten acks whose deliveries it has kept: those messages are pending again, and come when ack_wait is over, to whoever
// pulls then. So behind a reconnect what was settled lately, and is not behind the ack floor, is acknowledged once more. The server ignores an ack of what is not pending.

// tendForgotten looks whether acks may have been forgotten, and sends them again. It returns false where the server does not answer yet.
func (r *Runner) tendForgotten(since, now time.Duration) bool {
	info, err := r.consumerInfo(r.values)
	switch {
	case apiCode(err) != 0:
		return true // the consumer is gone: the pull loop sees to that
	case err != nil || info.Created.IsZero():
		return false
	case !info.Created.Equal(r.bound.info.Created) || info.NumAckPending == 0 || replicated(info):
		return true // what a quorum has is not forgotten
	}
	r.buf.mu.Lock()
	settled, _ := r.buf.toTellLocked(since, now)
	r.buf.mu.Unlock()
	var sent uint64
	defer func() { r.conf.countResent(sent) }()
	for _, f := range settled {
		if f.seq <= info.AckFloor.Stream || f.seq > info.Delivered.Stream {
			continue
		}
		if r.nc.Publish(r.replyOf(f), ackBody) != nil {
			return true
		}
		sent++
	}
	return true
}

// replyOf is a reply subject on which a message can be acknowledged whose own is not kept, and which is that of no delivery: it counts none. The server goes by the
// sequence in the stream where acks are explicit (nats-server 2.15, ackReplyInfo and processAckMsgLocked).
func (r *Runner) replyOf(f fact) string {
	seq := strconv.FormatUint(f.seq, 10)
	return r.subjects.replies + "0." + seq + "." + seq + "." + strconv.FormatInt(f.published, 10) + ".0"
}
