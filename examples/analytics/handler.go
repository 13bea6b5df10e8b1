package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ackfloor/ackfloor"
)

// few is up to how many messages of a batch are shown one by one.
const few = 10

// writer is the handler: it writes each batch into one file per hour of its events.
type writer struct {
	store *store
	pause time.Duration // how long the worker waits where the disk takes nothing
	show  func(m *ackfloor.Message, format string, args ...any)

	rows atomic.Uint64 // written by this process
}

// HandleBatch answers for each message by itself: what can't be decoded is refused and the others are written. An hour's messages are done when their file is
// on disk under its name. Where the disk takes no more, those that are not done wait, and the worker with them: it is not their fault.
func (w *writer) HandleBatch(ctx context.Context, b *ackfloor.Batch) error {
	hours := make(map[time.Time][]int) // indexes of messages
	rows := make([]row, len(b.Messages))
	for i, m := range b.Messages {
		r, err := decode(m)
		if err != nil {
			b.Fail(i, ackfloor.Permanent(err))
			if len(b.Messages) <= few {
				w.show(m, "refused: %v", err)
			}
			continue
		}
		rows[i] = r
		hours[r.hour()] = append(hours[r.hour()], i)
	}
	for _, hour := range slices.SortedFunc(maps.Keys(hours), time.Time.Compare) {
		if ctx.Err() != nil {
			return context.Cause(ctx) // the rest comes again
		}
		mine := make([]row, 0, len(hours[hour]))
		for _, i := range hours[hour] {
			mine = append(mine, rows[i])
		}
		if err := w.store.writeBatch(mine); err != nil {
			return w.diskTrouble(err)
		}
		w.rows.Add(uint64(len(mine)))
		for _, i := range hours[hour] {
			b.Done(i)
			if len(b.Messages) <= few {
				w.show(b.Messages[i], "%s, kept with the hour %s", rows[i].what(), hour.Format(hourLayout))
			}
		}
	}
	return nil
}

func (r *row) what() string {
	if r.Page != "" {
		return "page " + r.Page
	}
	return "input " + r.Field
}

// diskTrouble is a pause, whatever the disk has: full, read-only or gone, another message would fare no better.
func (w *writer) diskTrouble(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = fmt.Errorf("the disk is full: %w", err)
	}
	return ackfloor.Pause(w.pause, err)
}
