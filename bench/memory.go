package main

import (
	"context"
	"fmt"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
)

const (
	modeMemory = "memory"
	smallBody  = 16
)

// sample is the memory of a worker after so many messages.
type sample struct {
	After int64
	RSS   uint64
	Live  uint64 // heap after a collection
}

var memoryNames = map[string]bool{"consume": true, "ackfloor-confirm": true, "ackfloor-send": true, "ackfloor-keyed": true, "watermill": true}

// startSamples begins to sample at 10 %, 50 % and 100 % of the messages. It samples beside the handlers, which go on.
func (w *watcher) startSamples() {
	w.points = []int64{max(1, w.n/10), max(1, w.n/2), w.n}
	w.take, w.sampled = make(chan int64, len(w.points)), make(chan []sample, 1)
	go func() {
		var out []sample
		for at := range w.take {
			out = append(out, sample{After: at, RSS: rss(), Live: liveHeap()})
		}
		w.sampled <- out
	}()
}

// finishSamples returns the samples; nothing is handled any more.
func (w *watcher) finishSamples() []sample {
	if w.take == nil {
		return nil
	}
	close(w.take)
	return <-w.sampled
}

// memory has contestants consume many messages once each.
func memory(ctx context.Context, b *bed, opt options) (map[string][]run, error) {
	const stream = "MEMORY"
	if err := b.stream(ctx, stream); err != nil {
		return nil, err
	}
	opt.progress("memory: filling the stream with %d messages", opt.memoryN)
	if err := b.fill(ctx, stream, opt.memoryN, smallBody); err != nil {
		return nil, err
	}
	runs := make(map[string][]run)
	for _, who := range opt.who {
		if !memoryNames[who.name] {
			continue
		}
		n := max(10, opt.memoryN/who.share)
		durable, err := b.durable(ctx, stream, who.name, uint64(opt.memoryN-n+1))
		if err != nil {
			return nil, err
		}
		name := durable.CachedInfo().Name
		o := order{mode: modeMemory, name: who.name, build: who.build, n: n, target: b.at(stream, name)}
		r, err := b.turn(ctx, o.profiles(opt, 1), durable, nil)
		if err != nil {
			return nil, err
		}
		opt.progress("memory: %-16s %.1f MB at the end", who.label(), mb(r.Samples[len(r.Samples)-1].RSS))
		runs[who.label()] = append(runs[who.label()], r)
		b.forget(ctx, stream, name)
	}
	return runs, b.js.DeleteStream(ctx, stream)
}

func memoryTable(w *table, opt options, runs map[string][]run) {
	w.title("Memory: %d messages of %d bytes (slow ones fewer), resident and live heap in MB after 10 %%, 50 %% and 100 %% of them", opt.memoryN, smallBody)
	var lines []figures.Line
	w.row("contestant", "RSS 10 %", "50 %", "100 %", "heap 10 %", "50 %", "100 %", "peak RSS")
	for _, who := range opt.who {
		for _, r := range runs[who.label()] {
			s := r.Samples
			cells := []string{who.label()}
			for i := range s {
				cells = append(cells, fmt.Sprintf("%.1f", mb(s[i].RSS)))
			}
			for i := range s {
				cells = append(cells, fmt.Sprintf("%.2f", mb(s[i].Live)))
			}
			w.row(append(cells, fmt.Sprintf("%.1f", mb(r.PeakRSS)))...)
			line := figures.Line{Name: who.label()}
			for i := range s {
				line.Add(100*float64(s[i].After)/float64(r.n), mb(s[i].RSS))
			}
			lines = append(lines, line)
		}
	}
	w.flush()
	w.chart(figures.Chart{Name: "memory", Title: fmt.Sprintf("%d messages", opt.memoryN), X: figures.Axis{Label: "% of the messages handled"}, Y: figures.Axis{Label: "MB resident"}, Lines: lines})
	for _, name := range []string{"ackfloor-confirm", "ackfloor-send"} {
		for _, r := range runs[name] {
			s := r.Samples
			w.aim("live heap at 100 % against 10 %, "+name, float64(s[len(s)-1].Live)/float64(s[0].Live), atMost, 1.1)
			w.aim("RSS at 100 % against 10 %, "+name, float64(s[len(s)-1].RSS)/float64(s[0].RSS), atMost, 1.1)
		}
	}
}
