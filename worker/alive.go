package worker

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const turnPoll = 5 * time.Millisecond // how often it is looked who has gone round

// turn is a part of a Runner that has been asked to go round.
type turn struct {
	name string
	done func() bool
}

// turns asks every part that must not hang to go round: the loops, the goroutine that reads, and the one that takes answers.
func (r *Runner) turns() []turn {
	var all []turn
	ask := func(name string, a *alarm) {
		before := a.turns.Load()
		a.by(0)
		all = append(all, turn{name + " loop", func() bool { return a.turns.Load() != before }})
	}
	ask("leases", r.leases)
	ask("settlements", r.conf.alarm)
	ask("overseer of the reader's", r.reader.alarm)
	ask("pull", r.pullAlarm)
	ask("again", r.againAlarm)
	ask("letters", r.books.alarm)
	ask("tally", r.tally.alarm)
	if r.buf.lanes != nil {
		ask("order", r.buf.lanes.alarm)
	}
	if r.batch != nil {
		ask("batch", r.batch.alarm)
	}
	return append(all, r.readerTurn(), r.answersTurn())
}

// readerTurn puts a mark among what has arrived.
func (r *Runner) readerTurn() turn {
	before, sent := r.reader.turns.Load(), false
	return turn{"reader", func() bool {
		if !sent {
			select {
			case r.reader.in <- readTurn:
				sent = true
			default: // full: there is a next time
			}
		}
		select {
		case <-r.reader.over:
			return true
		default:
			return r.reader.turns.Load() != before
		}
	}}
}

// answersTurn waits for the answer that is being taken, if one is: the function of OnSettled may be in it.
func (r *Runner) answersTurn() turn {
	out := r.answersOut.Load()
	within := r.answersIn.Load() != out
	return turn{"answers", func() bool { return !within || r.answersOut.Load() != out }}
}

// Alive has each part of the Runner that must not hang go round once, all at the same time, and returns nil when all have: for a watchdog that must not be fed by a mere ticker, and
// for a liveness probe. It does not wait for handlers, nor for a server, but that a loop may be in a request, which it gives up after half a second: two seconds are enough for ctx. When ctx ends first, the
// error names a part that has not gone round: it hangs, or the process gets no processor. What the Runner calls inside of them, Config.Key and the function of OnSettled, shows too. A Runner that
// was not run yet, is binding, or has ended as it should is alive; one that has failed is not.
func (r *Runner) Alive(ctx context.Context) error {
	if State(r.state.Load()) < StateWorking { // its loops have not begun
		return nil
	}
	waiting := r.turns()
	if child := r.replays.Load(); child != nil && State(child.state.Load()) >= StateWorking {
		for _, t := range child.turns() {
			waiting = append(waiting, turn{"replays' " + t.name, func() bool { return t.done() || State(child.state.Load()) == StateEnded }})
		}
	}
	poll := time.NewTicker(turnPoll)
	defer poll.Stop()
	for {
		waiting = slices.DeleteFunc(waiting, func(t turn) bool { return t.done() })
		if len(waiting) == 0 || State(r.state.Load()) == StateEnded {
			return r.failed()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("worker: the %s does not go round: %w", waiting[0].name, context.Cause(ctx))
		case <-poll.C:
		}
	}
}
