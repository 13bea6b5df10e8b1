package worker

import (
	"context"
	"strconv"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"go.uber.org/zap"
)

// Replays of dead letters come from the dead-letter stream, on a subject and a durable of this consumer's own, so that no other service
// on the stream sees them. A second Runner pulls them, with the same handler. What it calls counts against the slots of the first, so that no
// more handlers run at once than CONCURRENCY says, and a suspect still runs alone.

const (
	replayStart  = 5 * time.Second  // for the durable of the replays to be there
	replayAgain  = 10 * time.Second // after which it is looked for again
	replayDivide = 4                // of the slots, one in so many may handle replays
)

// handleReplays pulls and handles replays until ctx ends.
func (r *Runner) handleReplays(ctx context.Context) error {
	said := ""
	for ctx.Err() == nil {
		child, err := r.replayRunner()
		if err == nil {
			r.replays.Store(child)
			err = child.Run(ctx)
		}
		if ctx.Err() != nil || err == nil {
			return err
		}
		what := shown(err.Error())
		if said != what {
			said = what
			r.log.Warn("replays of dead letters are not handled now", zap.String("dead_letters", r.cfg.DeadLetter), zap.String("error", what))
		}
		if final(err) {
			return nil
		}
		wait := time.NewTimer(replayAgain)
		select {
		case <-ctx.Done():
			wait.Stop()
			return nil
		case <-wait.C:
		}
	}
	return nil
}

// replayRunner makes the Runner that handles the replays of r.
func (r *Runner) replayRunner() (*Runner, error) {
	cfg := r.cfg
	cfg.Stream, cfg.Consumer = r.cfg.DeadLetter, deadletter.ReplayConsumer(r.cfg.Stream, r.cfg.Consumer)
	cfg.Filter, cfg.Start, cfg.DeadLetter = []string{deadletter.ReplayFilter(r.cfg.Stream, r.cfg.Consumer)}, "all", off
	cfg.Concurrency, cfg.Prefetch, cfg.MaxAckPending, cfg.ExitWhenIdle = max(1, r.cfg.Concurrency/replayDivide), 0, 0, false
	cfg.Logger, cfg.Retry, cfg.StartupTimeout, cfg.unknown = r.log, r.policy, replayStart, nil
	h := r.handler
	if g, ok := h.(gated); ok {
		h = g.next // the child has the gate of its own
	}
	cfg.PinnedTTL = 0
	cfg.Key = nil // the key is the original's: callReplay waits for it
	child, err := New(r.nc, cfg, h)
	if err != nil {
		return nil, err
	}
	child.log = r.log.Named("replay") // which names the stream and the consumer already
	if child.log.Core().Enabled(zap.WarnLevel) {
		child.log = child.log.WithOptions(zap.IncreaseLevel(zap.WarnLevel)) // one start and one drain are enough to read
	}
	child.cfg.DeadLetter, child.source = r.cfg.DeadLetter, r
	return child, nil
}

// replayLetter reads the letter that a replay is of. Where only a part of it can be had, it returns that and why: it can be written again as it is.
func (r *Runner) replayLetter(d *delivery) (*deadletter.Letter, error) {
	l, err := deadletter.ReadReplay(d.msg.Subject, d.msg.Header, d.msg.Data)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.values, letterWait)
	defer cancel()
	return l, r.letters.writer.Complete(ctx, l)
}

// callReplay calls the handler with the message that a replay is of, when a slot is free.
func (r *Runner) callReplay(d *delivery) error {
	l, err := r.replayLetter(d)
	switch {
	case l == nil:
		return ackfloor.Permanent(err)
	case err != nil:
		return err
	}
	m := &ackfloor.Message{
		Subject: l.Subject, Data: l.Data, Header: l.Header, Stream: l.Stream, Consumer: l.Consumer, Sequence: l.MessageSequence,
		Attempt: d.msg.Attempt, Published: l.Published, Pending: d.msg.Pending,
	}
	if m.Header == nil {
		m.Header = make(map[string][]string, 1)
	}
	m.Header[deadletter.HeaderReplays] = []string{strconv.Itoa(l.Replays)}
	slots := r.source.buf
	r.limit(d, never) // its time begins when it has a slot
	if !slots.enter(d, d.past != nil && d.past.alone, r.source.keyOf(&delivery{attempt: attempt{r: r.source}, msg: *m})) {
		return errTurnedAway
	}
	defer func() {
		if e := r.living(d); e != nil { // what runs next may not live
			r.writeRecord(r.values, e)
		}
		slots.leave(d)
	}()
	if d.past != nil && d.past.alone && !d.past.marked {
		r.markAlone(d)
	}
	limit := r.clock.now() + r.cfg.HandleTimeout
	if !r.limit(d, limit) {
		return errTurnedAway
	}
	r.leases.by(limit)
	return r.handler.Handle(&d.attempt, m)
}

// limit sets when an attempt's time is over. It returns false where the message is no longer ours.
func (r *Runner) limit(d *delivery, limit time.Duration) bool {
	r.buf.mu.Lock()
	defer r.buf.mu.Unlock()
	d.attempt.mu.Lock()
	defer d.attempt.mu.Unlock()
	d.attempt.limit = limit
	return !d.gone
}

// replaysIdle tells whether no replay is held or waits.
func (r *Runner) replaysIdle(ctx context.Context) bool {
	child := r.replays.Load()
	switch {
	case child == nil:
		return r.letters == nil || r.source != nil
	case child.failed() != nil || State(child.state.Load()) == StateEnded: // none are handled now
		return true
	}
	return State(child.state.Load()) == StateWorking && child.empty() && child.nothingPending(ctx)
}
