package main

import (
	"context"
	"fmt"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
)

const (
	modeThroughput = "throughput"
	bodySize       = 128
)

// throughput has every contestant consume the same stream, one after another, round after round.
func throughput(ctx context.Context, b *bed, opt options) (map[string][]run, error) {
	const stream = "THROUGHPUT"
	if err := b.stream(ctx, stream); err != nil {
		return nil, err
	}
	opt.progress("throughput: filling the stream with %d messages", opt.n)
	if err := b.fill(ctx, stream, opt.n, bodySize); err != nil {
		return nil, err
	}
	one := func(who contestant, round int) (run, error) {
		n := max(1, opt.n/who.share)
		durable, err := b.durable(ctx, stream, who.name, uint64(opt.n-n+1))
		if err != nil {
			return run{}, err
		}
		name := durable.CachedInfo().Name
		defer b.forget(ctx, stream, name)
		o := order{mode: modeThroughput, name: who.name, build: who.build, n: n, target: b.at(stream, name)}
		return b.turn(ctx, o.profiles(opt, round), durable, nil)
	}
	// A turn that is not counted reads the stream's files once, so that the first in the table finds them as the others do.
	if _, err := one(contestants[0], 0); err != nil {
		return nil, err
	}
	runs := make(map[string][]run)
	for round := range opt.rounds {
		for _, who := range opt.who {
			r, err := one(who, round+1)
			if err != nil {
				return nil, err
			}
			opt.progress("throughput: round %d: %-16s %7.0f msgs/s", round+1, who.label(), r.rate())
			runs[who.label()] = append(runs[who.label()], r)
		}
	}
	return runs, nil
}

// throughputTable writes medians, and the median of the ratios of each round to consume's.
func throughputTable(w *table, opt options, runs map[string][]run) {
	w.title("Throughput: %d messages of %d bytes (slow ones fewer), %d rounds, medians; x: against consume in the same round", opt.n, bodySize, opt.rounds)
	w.row("contestant", "n", "msgs/s", "x", "CPU µs/msg", "x", "allocs/msg", "B/msg", "peak RSS MB")
	cpu := func(r run) float64 { return float64(r.Usage.CPU.Microseconds()) / float64(r.n) }
	allocs := func(r run) float64 { return float64(r.Usage.Mallocs) / float64(r.n) }
	base := runs["consume"]
	for _, who := range opt.who {
		rs := runs[who.label()]
		w.row(who.label(), fmt.Sprint(rs[0].n),
			fmt.Sprintf("%.0f", medianOf(rs, run.rate)), times(rs, base, run.rate),
			fmt.Sprintf("%.2f", medianOf(rs, cpu)), times(rs, base, cpu),
			fmt.Sprintf("%.2f", medianOf(rs, allocs)),
			fmt.Sprintf("%.0f", medianOf(rs, func(r run) float64 { return float64(r.Usage.Bytes) / float64(r.n) })),
			fmt.Sprintf("%.1f", medianOf(rs, func(r run) float64 { return mb(r.PeakRSS) })))
	}
	w.flush()
	w.chart(figures.Chart{Name: "throughput", Title: "Handlers that do nothing", Y: figures.Axis{Label: "messages a second"}, Bars: barsOf(opt.who, runs, run.rate)})
	workTable(w, opt, runs)
	confirm, without, send, serial := runs["ackfloor-confirm"], runs["ackfloor-off"], runs["ackfloor-send"], runs["doubleack"]
	w.aim("msgs/s, confirmed acks, against consume", ratio(confirm, base, run.rate), atLeast, 1.0)
	w.aim("msgs/s, plain acks, against consume", ratio(send, base, run.rate), atLeast, 1.1)
	w.aim("msgs/s, dead letters and records on, against off", ratio(confirm, without, run.rate), atLeast, 0.98)
	w.aim("msgs/s, in order of 10,000 keys, against consume", ratio(runs["ackfloor-keyed"], base, run.rate), atLeast, 0.8)
	w.aim("msgs/s, in order of 10,000 keys, against without order", ratio(runs["ackfloor-keyed"], confirm, run.rate), atLeast, 0.8)
	w.aim("msgs/s, confirmed acks, against serial DoubleAck", ratio(confirm, serial, run.rate), atLeast, 12)
	w.aim("CPU a message, confirmed acks, against consume", ratio(confirm, base, cpu), atMost, 1)
	w.aim("CPU a message, dead letters and records on, against off", ratio(confirm, without, cpu), atMost, 1.05)
	w.aim("CPU a message, plain acks, against consume", ratio(send, base, cpu), atMost, 1)
	w.aim("allocations a message, confirmed acks", medianOf(confirm, allocs), atMost, 5)
	w.aim("allocations a message, confirmed acks, against consume", ratio(confirm, base, allocs), below, 1)
	w.aim("allocations a message, plain acks, against consume", ratio(send, base, allocs), below, 1)
}

// barsOf is a bar for each contestant: the median of a figure.
func barsOf(who []contestant, runs map[string][]run, figure func(run) float64) (bars []figures.Bar) {
	for _, c := range who {
		bars = append(bars, figures.Bar{Name: c.label(), Y: medianOf(runs[c.label()], figure)})
	}
	return bars
}
