package worker

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/retry"
	"go.uber.org/zap"
)

// verdictKind is what becomes of a message.
type verdictKind int

const (
	acked    verdictKind = iota // done
	retried                     // a failure: comes back after a delay
	givenUp                     // a failure for good: permanent, or the attempts are used up
	returned                    // interrupted, no failure: comes back at once
	late                        // failed after its lease was lost: it is another's by now, nothing is sent
)

// verdict is what an outcome means for its message.
type verdict struct {
	kind   verdictKind
	delay  time.Duration // retried, returned: until it comes back
	reason string        // givenUp: permanent, undecodable, exhausted, timed out; retried: failed, timed out, panicked
}

// outcome is how a handler's call ended.
type outcome struct {
	err     error
	cause   error // of the context's end, nil if it had not ended when the handler returned
	attempt int
	age     time.Duration // since the message was published
}

// judge maps an outcome to its verdict. It decides everything, and does nothing.
func judge(o outcome, policy retry.Policy, maxAttempts int) verdict {
	if o.err == nil {
		return verdict{kind: acked}
	}
	var permanent *ackfloor.PermanentError
	if errors.As(o.err, &permanent) {
		var undecodable *ackfloor.DecodeError
		if errors.As(o.err, &undecodable) {
			return verdict{kind: givenUp, reason: "undecodable"}
		}
		return verdict{kind: givenUp, reason: "permanent"}
	}
	var panicked *ackfloor.PanicError
	reason := "failed"
	switch {
	case errors.As(o.err, &panicked):
		reason = "panicked"
	case errors.Is(o.cause, ackfloor.ErrStopping):
		return verdict{kind: returned}
	case errors.Is(o.cause, ackfloor.ErrLeaseLost):
		return verdict{kind: late}
	case errors.Is(o.cause, ackfloor.ErrHandleTimeout):
		reason = "timed out"
	}
	if o.attempt >= maxAttempts {
		return verdict{kind: givenUp, reason: exhausted(reason)}
	}
	var after *ackfloor.RetryAfterError
	if errors.As(o.err, &after) {
		return verdict{kind: retried, delay: after.Delay, reason: reason}
	}
	delay, again := policy(o.attempt, &retry.Failure{Err: o.err, Age: o.age})
	if !again {
		return verdict{kind: givenUp, reason: exhausted(reason)}
	}
	return verdict{kind: retried, delay: delay, reason: reason}
}

// exhausted names why the last attempt was the last: a message that only ever timed out is told from one that failed.
func exhausted(reason string) string {
	if reason == "timed out" {
		return reason
	}
	return "exhausted"
}

// judged is judge, which calls code of the user: the policy, and methods of errors, where a nil pointer in an error is a common slip. A
// panic there is a failure of this message alone.
func (r *Runner) judged(o outcome) (v verdict) {
	if o.err == nil {
		return verdict{kind: acked}
	}
	defer func() {
		if p := recover(); p != nil {
			r.counters.panics.Add(1)
			r.log.Error("the retry policy, or a method of the error, panicked", zap.String("panic", shown(fmt.Sprint(p))), zap.ByteString("stack", debug.Stack()))
			v = verdict{kind: retried, delay: r.leaseTime(), reason: "panicked"}
			if o.attempt >= r.cfg.MaxAttempts {
				v = verdict{kind: givenUp, reason: exhausted(v.reason)}
			}
		}
	}()
	return judge(o, r.policy, r.cfg.MaxAttempts)
}

// errorFields tells an error without secrets, and the stack of a panic, also where a method of the error panics itself.
func errorFields(err error) (fields []zap.Field) {
	defer func() {
		if p := recover(); p != nil {
			fields = []zap.Field{zap.String("error", fmt.Sprintf("%T, a method of which panicked: %v", err, p))}
		}
	}()
	fields = []zap.Field{zap.String("error", shown(err.Error()))}
	var panicked *ackfloor.PanicError
	if errors.As(err, &panicked) && panicked.Stack != nil {
		fields = append(fields, zap.ByteString("stack", panicked.Stack))
	}
	return fields
}

// settle decides what becomes of a message whose handler has returned, takes it out of the held set and tells the server. It is, with
// send, the only place where an ack, a nak or a term leaves.
func (r *Runner) settle(d *delivery, err error, now time.Duration) {
	o := outcome{err: err, cause: d.attempt.returned(now), attempt: d.msg.Attempt}
	if err != nil {
		o.age = time.Since(d.msg.Published)
	}
	v := r.judged(o)
	if v.kind == givenUp {
		v = r.giveUp(d, v, err)
	}
	reply, gone := r.finish(d, now, v.kind == acked || v.kind == givenUp)
	if gone && v.kind != acked {
		v = verdict{kind: late} // handed back, or its lease is lost
	}
	if v.kind == returned {
		r.counters.interrupted.Add(1)
	}
	if v.kind != acked {
		r.logFailure(d, v, err)
	} else if gone {
		r.counters.late.Add(1)
		r.log.Warn("done, but late: the lease was lost before the handler returned; another worker may have handled it too", describe(d)...)
	}
	r.send(d, reply, v, now)
}

// finish takes a message whose handler has returned out of the held set, and has the pull loop ask for more where there is room.
func (r *Runner) finish(d *delivery, now time.Duration, forGood bool) (reply string, gone bool) {
	r.buf.mu.Lock()
	reply, gone = r.buf.finishLocked(d, now, forGood)
	if r.reader.within == d {
		r.reader.within = nil
	}
	ask, room := r.askLocked(now)
	r.buf.mu.Unlock()
	if room {
		r.post(ask)
	}
	return reply, gone
}

// giveUp is called for a message that can't be handled, before it is settled in any way: what keeps such messages belongs here, and may
// answer with another verdict where it can't. In this version they are terminated and logged.
func (r *Runner) giveUp(_ *delivery, v verdict, _ error) verdict {
	if v.reason == "exhausted" || v.reason == "timed out" {
		r.counters.exhausted.Add(1)
	}
	return v
}

// send tells the server a verdict. Nothing here uses a context, so that nothing which ends a handler or the Runner ends a settlement.
func (r *Runner) send(d *delivery, reply string, v verdict, now time.Duration) {
	switch v.kind {
	case acked:
		r.counters.acked.Add(1)
	case retried:
		r.counters.retried.Add(1)
	case givenUp:
		r.counters.terminated.Add(1)
	case returned:
		r.counters.returned.Add(1)
	case late:
		r.counters.late.Add(1)
		return
	}
	r.tell(d, reply, v, now)
}

// tell is send for what is not counted as an outcome.
func (r *Runner) tell(d *delivery, reply string, v verdict, now time.Duration) {
	body := ackBody
	switch v.kind {
	case retried, returned:
		body = nakBody(v.delay)
	case givenUp:
		body = termBody(v.reason)
	}
	if r.cfg.Ack == AckSend {
		if err := r.nc.Publish(reply, body); err != nil {
			r.log.Warn("a settlement could not be sent: the message comes back after ack_wait", append(describe(d), zap.Error(err))...)
		}
		return
	}
	if v.kind == acked {
		r.conf.ack(reply, d.msg.Sequence, now)
		return
	}
	r.conf.settle(reply, body, d.msg.Sequence, v.kind == retried || v.kind == returned, v.delay, now)
}

// logFailure writes the one line that a failure gets.
func (r *Runner) logFailure(d *delivery, v verdict, err error) {
	fields := append(describe(d), errorFields(err)...)
	switch v.kind {
	case retried:
		r.log.Warn("failed: will be tried again", append(fields, zap.String("reason", v.reason), zap.Duration("delay", v.delay))...)
	case givenUp:
		r.log.Error("given up: terminated", append(fields, zap.String("reason", v.reason), zap.Int("max_attempts", r.cfg.MaxAttempts))...)
	case returned:
		r.log.Debug("interrupted: handed back, no failure", fields...)
	case late:
		r.log.Warn("returned an error late: the lease was lost before; nothing is sent", fields...)
	}
}

func describe(d *delivery) []zap.Field {
	return []zap.Field{zap.String("subject", printable(d.msg.Subject)), zap.Uint64("sequence", d.msg.Sequence), zap.Int("attempt", d.msg.Attempt)}
}
