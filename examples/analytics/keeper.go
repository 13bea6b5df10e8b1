package main

import (
	"context"
	"path/filepath"
	"time"
)

const (
	keeperLook   = 250 * time.Millisecond
	keeperQuiet  = 4                // looks without a new row, after which it tidies up and sums up
	keeperBusy   = 30 * time.Second // under load that never ends, as often at the most
	keeperShare  = 20               // and so seldom that it takes no more than a part of the time: a twentieth
	keeperHours  = 24               // how many of the newest hours the service's own summary is of
	keeperAtLast = 5 * time.Second  // for the summary of a service that stops
)

// keeper merges small files and writes the summary, beside the worker, whenever it is quiet.
type keeper struct {
	store   *store
	written func() uint64 // rows, by this process
	say     func(format string, args ...any)

	counter counter
	said    string // the last trouble
}

// run works until ctx ends, which is when the worker has drained, and sums up once more what came last.
func (k *keeper) run(ctx context.Context) error {
	k.counter.store = k.store
	ticker := time.NewTicker(keeperLook)
	defer ticker.Stop()
	var last, summed uint64
	still, next := 0, time.Now().Add(keeperBusy)
	if files, err := k.store.files(); err == nil && len(files) > 0 {
		k.tidy(ctx) // what an earlier process left
	}
	for {
		select {
		case <-ctx.Done():
			if k.written() != summed {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keeperAtLast)
				defer cancel()
				k.sumUp(ctx)
			}
			return nil
		case <-ticker.C:
		}
		if n := k.written(); n != last {
			last, still = n, 0
		} else {
			still++
		}
		if last == summed || still < keeperQuiet && time.Now().Before(next) {
			continue
		}
		began := time.Now()
		k.tidy(ctx)
		k.sumUp(ctx)
		summed = last
		next = time.Now().Add(max(keeperBusy, keeperShare*time.Since(began)))
	}
}

func (k *keeper) tidy(ctx context.Context) {
	k.tell(ctx, "merging files", k.store.compact(ctx, time.Now()))
}

func (k *keeper) sumUp(ctx context.Context) {
	hours, files, err := k.counter.count(ctx, keeperHours)
	if err == nil {
		s := summarise(hours, files)
		if err = k.store.save(ofService, s); err == nil {
			k.said = ""
			k.say("%s of %s in %s; summed up in %s (and .json, .png)",
				plural(s.Events, "event"), plural(s.Hours, "hour"), plural(s.Files, "file"), filepath.Join(k.store.dir, ofService+textEnding))
			return
		}
	}
	k.tell(ctx, "no new summary", err)
}

// tell says what does not work, once: none of it holds up the worker, and all of it is tried again.
func (k *keeper) tell(ctx context.Context, what string, err error) {
	if err == nil || ctx.Err() != nil || k.said == err.Error() {
		return
	}
	k.said = err.Error()
	k.say("%s: %v", what, err)
}
