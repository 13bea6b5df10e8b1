package worker

import (
	"context"
	"errors"
	"time"
)

// errIdle ends the work of a Runner that was told to end when nothing is pending.
var errIdle = errors.New("worker: nothing is pending")

// watchIdle ends the work when two looks in a row find nothing held here and nothing pending at the server, for which one
// reading is not enough: a leader that is shutting down answers with zeros.
func (r *Runner) watchIdle(ctx context.Context) {
	agree := 0
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if r.empty() && r.nothingPending(ctx) && r.replaysIdle(ctx) {
			agree++
		} else {
			agree = 0
		}
		if agree == 2 {
			r.stop(errIdle)
			return
		}
	}
}

func (r *Runner) empty() bool {
	waiting, running, kept := r.buf.count()
	return waiting+running+kept == 0 && r.conf.open.Load() == 0
}

func (r *Runner) nothingPending(ctx context.Context) bool {
	info, err := r.consumerInfo(ctx)
	if err != nil || !info.Created.Equal(r.bound.info.Created) {
		return false
	}
	r.sawCursor(info)
	return info.NumPending == 0 && info.NumAckPending == 0
}
