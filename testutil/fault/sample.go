package fault

import (
	"context"
	"runtime/metrics"
	"time"
)

// Sample writes down every so often what this process takes: goroutines, memory, and what held returns, the messages that the Runner holds (nil for none). It
// runs until ctx ends and returns nil, so it does as a part of worker.Main:
//
//	func(ctx context.Context, r *worker.Runner) error {
//		return journal.Sample(ctx, time.Second, func() int { return len(r.Held()) })
//	}
func (j *Journal) Sample(ctx context.Context, every time.Duration, held func() int) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		e := usage()
		if held != nil {
			e.Held = held()
		}
		if err := j.write(e); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// usage reads the runtime's own counts, which does not stop the world.
func usage() Event {
	const goroutines, heap, total, released = "/sched/goroutines:goroutines", "/memory/classes/heap/objects:bytes", "/memory/classes/total:bytes",
		"/memory/classes/heap/released:bytes"
	samples := []metrics.Sample{{Name: goroutines}, {Name: heap}, {Name: total}, {Name: released}}
	metrics.Read(samples)
	return Event{Kind: KindSample, Goroutines: int(samples[0].Value.Uint64()), Heap: samples[1].Value.Uint64(),
		Memory: samples[2].Value.Uint64() - samples[3].Value.Uint64()}
}
