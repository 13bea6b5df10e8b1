package worker

import (
	"context"
	"errors"
	"time"

	"github.com/ackfloor/ackfloor"
	"go.uber.org/zap"
)

const (
	interruptedWait = 100 * time.Millisecond // for handlers that were interrupted, to return
	confirmWait     = 3 * time.Second        // for the last confirmations, beyond the grace
	failedGrace     = 250 * time.Millisecond // for handlers, when the Runner can't go on
	failedWait      = time.Second            // for the last confirmations then
)

// drain ends the work in six steps and returns how it ended. cause is why: ctx ended, nothing is pending, or a failure.
func (r *Runner) drain(ctx context.Context, cause error) error {
	r.to(StateDraining)
	began := r.clock.now()
	grace := r.cfg.DrainTimeout
	if r.failed() != nil {
		grace = min(grace, failedGrace)
	}
	r.log.Debug("draining", zap.String("why", why(cause)), zap.Duration("grace", grace))
	over := make(chan struct{})
	timer := time.AfterFunc(grace, func() { close(over) })
	defer timer.Stop()

	// 1. No new pull; the open ones are read to their end. 2. What waits is handled while the grace lasts.
	r.endPulls(over)
	r.handBackAgain()
	r.handBackStuck()
	r.handBackPaused()
	inTime := r.finishHandlers(over)
	// 3. Then what still waits goes back, and what runs is interrupted.
	var broken *DrainError
	if !inTime {
		broken = r.interrupt()
	}
	// 4. What was kept is written down, and the last settlements are confirmed.
	r.closeBooks(began + grace)
	r.awaitConfirmations(ctx, began+grace)
	// 5. A last look. The connection is the caller's to close.
	all := r.conf.open.Load() == 0
	r.tellLast(began + grace)
	r.lastLook(ctx)
	if all { // a server that stops delivers on pulls that it has ended, for a moment: what came meanwhile was handed back
		r.awaitConfirmations(ctx, began+grace)
	}
	unconfirmed := r.logDrain(cause, began)
	if err := r.failed(); err != nil {
		return err
	}
	if unconfirmed > 0 && broken == nil {
		broken = &DrainError{}
	}
	if broken != nil {
		broken.Unconfirmed = unconfirmed
		return broken
	}
	return nil
}

func why(cause error) string {
	if cause == nil || errors.Is(cause, context.Canceled) {
		return "told to stop"
	}
	return shown(cause.Error())
}

// endPulls stops pulling and waits until the open pulls have ended by themselves: losing interest in one that is being served
// burns deliveries. A connection that is cut has no open pulls.
func (r *Runner) endPulls(graceOver <-chan struct{}) {
	p := &r.pull
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	if r.source != nil {
		r.quitPulls() // replays are few: a delivery that is lost here comes again, and a stop need not wait for a pull that is idle
		r.buf.close()
		return
	}
	for {
		p.mu.Lock()
		open := p.open
		p.mu.Unlock()
		if open == 0 || r.failed() != nil || !r.nc.IsConnected() {
			break
		}
		select {
		case <-p.ended:
			continue
		case <-graceOver:
			r.quitPulls()
		}
		break
	}
	r.unpin() // now that none of ours can get it again
	r.buf.close()
}

// quitPulls gives up pulls that are still open when the grace ends, or what is handed back would come straight back on them. The
// server hears of it before it hears of any NAK, since both go over one connection in order; what it sent before still arrives.
func (r *Runner) quitPulls() {
	if !r.nc.IsConnected() || r.pullSub.Drain() != nil { // nats.go sends the UNSUB, and goes on delivering
		return
	}
	ctx, cancel := context.WithTimeout(r.values, interruptedWait)
	defer cancel()
	_ = r.nc.FlushWithContext(ctx)
	limit := time.NewTimer(interruptedWait)
	defer limit.Stop()
	r.readAll(limit.C)
}

// finishHandlers waits for the slots to end. It returns false when the grace ends first.
func (r *Runner) finishHandlers(graceOver <-chan struct{}) bool {
	done := make(chan struct{})
	go func() { r.slots.Wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-graceOver:
		select {
		case <-done: // both at once
			return true
		default:
			return false
		}
	}
}

// handBackPaused hands back what waits for the end of a pause, which may be long.
func (r *Runner) handBackPaused() {
	r.buf.mu.Lock()
	paused := r.buf.pause != nil
	r.buf.mu.Unlock()
	if !paused {
		return
	}
	r.buf.turnAway()
	for _, d := range r.buf.takeBack() {
		r.handBack(d, d.reply, 0)
	}
}

// interrupt hands back what waits, tells running handlers to end, and hands back the messages of those that do not.
func (r *Runner) interrupt() *DrainError {
	r.buf.turnAway()
	for _, d := range r.buf.takeBack() {
		r.handBack(d, d.reply, 0)
	}
	running := r.buf.runningNow()
	before := r.counters.interrupted.Load()
	for _, d := range running {
		d.attempt.end(ackfloor.ErrStopping)
	}
	moment := make(chan struct{})
	timer := time.AfterFunc(interruptedWait, func() { close(moment) })
	defer timer.Stop()
	r.finishHandlers(moment)
	e := &DrainError{Interrupted: int(r.counters.interrupted.Load() - before)}
	for _, d := range r.buf.runningNow() {
		reply, ours := r.buf.abandon(d)
		if !ours {
			continue
		}
		e.Abandoned = append(e.Abandoned, r.item(d, r.clock.now()))
		if !d.beside {
			r.log.Error("a handler ignores that its context has ended: its message is handed back while it runs", describe(d)...)
		}
		r.handBack(d, reply, 0)
	}
	if e.Interrupted == 0 && len(e.Abandoned) == 0 {
		return nil // all returned in the last moment, with an answer
	}
	return e
}

// awaitConfirmations waits until every settlement is confirmed, until a while behind the end of the grace: its clock is not the handlers'.
func (r *Runner) awaitConfirmations(ctx context.Context, graceEnd time.Duration) {
	wait, failed := max(graceEnd, r.clock.now())+confirmWait-r.clock.now(), r.failed() != nil
	if failed {
		wait = failedWait
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	if r.cfg.Ack == AckSend {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmWait)
		defer cancel()
		_ = r.nc.FlushWithContext(flush)
		return
	}
	r.conf.closeRun()
	for {
		if r.conf.open.Load() == 0 || r.nc.IsClosed() {
			return
		}
		if errors.Is(r.failed(), ErrConsumerDeleted) {
			return // nobody will answer
		}
		if !failed && r.failed() != nil {
			failed = true
			limit.Reset(failedWait)
		}
		select {
		case <-r.conf.empty: // or the Runner has failed
		case <-limit.C:
			return
		}
	}
}

// lastLook looks at the consumer for the last time.
func (r *Runner) lastLook(ctx context.Context) {
	if r.nc.IsClosed() || r.failed() != nil {
		return
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestWait)
	defer cancel()
	if info, err := r.consumerInfo(look); err == nil && !info.Created.IsZero() {
		r.sawCursor(info)
	}
}

// logDrain writes the one line that a drain gets. It returns how many settlements are not confirmed.
func (r *Runner) logDrain(cause error, began time.Duration) (unconfirmed int) {
	open := r.conf.open.Load()
	s := r.Status()
	fields := []zap.Field{
		zap.String("why", why(cause)),
		zap.Uint64("acked", s.Counts.Acked), zap.Uint64("retried", s.Counts.Retried), zap.Uint64("dead_lettered", s.Counts.DeadLettered), zap.Uint64("terminated", s.Counts.Terminated),
		zap.Uint64("returned", s.Counts.Returned), zap.Int64("unconfirmed", open),
		zap.Uint64("delivered", s.Cursor.Delivered), zap.Uint64("ack_floor", s.Cursor.AckFloor),
		zap.Int("ack_pending", s.Cursor.AckPending), zap.Uint64("pending", s.Cursor.Pending),
		zap.Duration("took", r.clock.now()-began),
	}
	if open > 0 {
		r.log.Warn("some settlements are not confirmed: their messages may be delivered again", zap.Uint64s("sequences", r.conf.sequences()))
	}
	r.log.Info("drained: the next worker resumes at the ack floor", fields...)
	return int(open)
}
