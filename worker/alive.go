package worker

import (
	"context"
	"fmt"
	"time"
)

const turnPoll = 5 * time.Millisecond // how often it is looked whether a loop went round

// turning is a loop that can be asked to go round.
type turning struct {
	name  string
	alarm *alarm
}

func (r *Runner) turning() []turning {
	all := []turning{{"leases", r.leases}, {"settlements", r.conf.alarm}, {"reader", r.reader.alarm}, {"pull", r.pullAlarm}, {"again", r.againAlarm}, {"letters", r.books.alarm}, {"tally", r.tally.alarm}}
	if r.buf.lanes != nil {
		all = append(all, turning{"order", r.buf.lanes.alarm})
	}
	if r.batch != nil {
		all = append(all, turning{"batch", r.batch.alarm})
	}
	return all
}

// Alive has each loop of the Runner go round once and returns nil when all have: for a watchdog that must not be fed by a mere ticker, and for a liveness probe. It asks
// no server, and does not depend on one, nor on handlers. When ctx ends first, the error names a loop that has not: it hangs, or the process gets no processor. A Runner that was
// not run yet, is binding, or has ended as it should is alive; one that has failed is not.
func (r *Runner) Alive(ctx context.Context) error {
	if State(r.state.Load()) < StateWorking { // its loops have not begun
		return nil
	}
	for _, loop := range r.turning() {
		before := loop.alarm.turns.Load()
		loop.alarm.by(0)
		for loop.alarm.turns.Load() == before {
			if State(r.state.Load()) == StateEnded {
				return r.failed()
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("worker: the %s loop does not go round: %w", loop.name, context.Cause(ctx))
			case <-time.After(turnPoll):
			}
		}
	}
	return r.failed()
}
