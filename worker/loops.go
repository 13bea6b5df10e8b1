package worker

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// startLoops starts what runs beside the slots: until tend ends, through the drain, and what looks for idleness until work ends.
func (r *Runner) startLoops(work, tend context.Context) *sync.WaitGroup {
	var loops sync.WaitGroup
	start := func(name string, loop func()) {
		loops.Go(func() { r.guard(name, loop) })
	}
	start("watch", func() { r.watch(tend) })
	start("leases", func() { r.leases.loop(tend, r.clock, r.tendLeases) })
	start("settlements", func() { r.conf.alarm.loop(tend, r.clock, r.tendSettlements) })
	start("reader", func() { r.reader.alarm.loop(tend, r.clock, r.tendReader) })
	start("pull", func() { r.pullAlarm.loop(tend, r.clock, r.tendPulls) })
	start("again", func() { r.againAlarm.loop(tend, r.clock, r.tendAgain) })
	start("others", func() { r.others.alarm.loop(tend, r.clock, r.tendOthers) })
	start("letters", func() { r.books.alarm.loop(tend, r.clock, r.tendLetters) })
	start("tally", func() { r.tally.alarm.loop(tend, r.clock, r.tendTally) })
	for range bookWriters {
		start("books", func() { r.write(tend) })
	}
	if r.buf.lanes != nil {
		start("order", func() { r.buf.lanes.alarm.loop(tend, r.clock, r.tendOrder) })
	}
	if r.batch != nil {
		start("batch", func() { r.batch.alarm.loop(tend, r.clock, r.tendBatch) })
	}
	if r.cfg.ExitWhenIdle {
		start("idle", func() { r.watchIdle(work) })
	}
	return &loops
}

// guard runs a loop; a panic in it ends the Runner with an error instead of the process, or of the loop alone.
func (r *Runner) guard(name string, loop func()) {
	defer func() {
		if p := recover(); p != nil {
			stack := debug.Stack()
			r.log.Error("a loop panicked", zap.String("loop", name), zap.String("panic", shown(fmt.Sprint(p))), zap.ByteString("stack", stack))
			r.fail(fmt.Errorf("worker: the %s loop failed: %w", name, &ackfloor.PanicError{Value: p, Stack: stack}))
		}
	}()
	r.at(name)
	loop()
}

func (r *Runner) at(point string) {
	if r.hook != nil {
		r.hook(point)
	}
}

// fail ends the Runner because it can't go on. The first reason counts.
func (r *Runner) fail(err error) {
	if !r.fails(err) {
		return
	}
	r.stop(err)
	if child := r.replays.Load(); child != nil {
		child.fails(err) // what ends the work ends it
	}
}

func (r *Runner) fails(err error) bool {
	if !r.failure.CompareAndSwap(nil, &failure{err}) {
		return false
	}
	select {
	case r.pull.ended <- struct{}{}: // a drain may be waiting for pulls that will not end now,
	default:
	}
	select {
	case r.conf.empty <- struct{}{}: // or for confirmations that will not come
	default:
	}
	return true
}

func (r *Runner) failed() error {
	if f := r.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// guarded is guard for a callback: a panic in one must not take the process down, nor leave a Runner that only looks alive.
func (r *Runner) guarded(name string, f nats.MsgHandler) nats.MsgHandler {
	return func(m *nats.Msg) {
		defer func() {
			if p := recover(); p != nil {
				r.fail(fmt.Errorf("worker: the %s callback failed: %w", name, &ackfloor.PanicError{Value: p, Stack: debug.Stack()}))
			}
		}()
		f(m)
	}
}

// watch follows the connection: after a reconnect everything is settled anew, and a connection that is closed for good ends the Runner.
func (r *Runner) watch(ctx context.Context) {
	changes := r.nc.StatusChanged(nats.CONNECTED, nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	defer r.nc.RemoveStatusListener(changes)
	var lost time.Duration // when the connection was; 0: it is there
	for {
		if r.nc.IsClosed() { // also: before we listened
			r.fail(fmt.Errorf("worker: the connection is closed for good: %w", nats.ErrConnectionClosed))
			return
		}
		select {
		case <-ctx.Done():
			return
		case s := <-changes:
			switch s {
			case nats.DISCONNECTED, nats.RECONNECTING: // the latter is what nats.go reports of a lost connection that it will make again
				r.suspectConsumer()
				r.forgetPulls()
				r.lostConnection(r.clock.now())
				if lost == 0 {
					lost = r.clock.now()
				}
			case nats.CONNECTED:
				r.counters.reconnects.Add(1)
				r.forgetPulls()
				now := r.clock.now()
				r.settleBeforePull(othersBack(now - cmp.Or(lost, now)))
				lost = 0
			}
		}
	}
}

// firstPull starts pulling, once others have told what they know. Where they hold messages already, it settles first: they may be about to settle after a restart.
func (r *Runner) firstPull() {
	r.pull.mu.Lock()
	if r.bound.info.NumAckPending > 0 {
		r.pull.notBefore, r.pull.suspect = r.clock.now()+settleFirst, true // and looks whether the leader has moved since
	} else if r.others.subject != "" {
		r.pull.notBefore = r.clock.now() + tellSoon
	}
	r.pull.mu.Unlock()
	r.pullAlarm.by(0)
}

// tendSettlements sends again what is not confirmed, and sees when the server refuses acks altogether.
func (r *Runner) tendSettlements(now time.Duration) time.Duration {
	r.at("tend")
	next := r.conf.scan(now)
	if r.conf.unanswered() {
		if denied := r.denied(r.subjects.next); denied != nil {
			r.fail(denied)
		}
		r.suspectConsumer()
	}
	return next
}
