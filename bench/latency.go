package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
)

const (
	modeLatency   = "latency"
	latencyRate   = 1000 // messages a second
	latencyWarmUp = 500  // messages that are not measured: connections, first pulls
)

// latencyNames are the contestants that latency is measured of.
var latencyNames = map[string]bool{"consume": true, "ackfloor-confirm": true, "ackfloor-send": true, "ackfloor-keyed": true, "watermill": true}

// latency publishes single messages, one a millisecond, to a contestant that waits for them. A message carries the time when
// it was published, by the clock of this machine; its handler looks at the same clock first of all.
func latency(ctx context.Context, b *bed, opt options) (map[string][]run, error) {
	const stream = "LATENCY"
	if err := b.stream(ctx, stream); err != nil {
		return nil, err
	}
	n := max(1, int(opt.latencyFor.Seconds()*latencyRate))
	runs := make(map[string][]run)
	for round := range opt.turns {
		for _, who := range opt.who {
			if !latencyNames[who.name] {
				continue
			}
			r, err := latencyOf(ctx, b, stream, who, n, opt, round+1)
			if err != nil {
				return nil, err
			}
			opt.progress("latency: round %d: %-16s p50 %v p99 %v", round+1, who.label(), r.percentile(50), r.percentile(99))
			runs[who.label()] = append(runs[who.label()], r)
		}
	}
	return runs, nil
}

func latencyOf(ctx context.Context, b *bed, stream string, who contestant, n int, opt options, round int) (run, error) {
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return run{}, err
	}
	if err := s.Purge(ctx); err != nil {
		return run{}, err
	}
	durable, err := b.durable(ctx, stream, who.name, 0)
	if err != nil {
		return run{}, err
	}
	name := durable.CachedInfo().Name
	defer b.forget(ctx, stream, name)
	o := order{mode: modeLatency, name: who.name, build: who.build, n: n + latencyWarmUp, skip: latencyWarmUp, target: b.at(stream, name)}
	return b.turn(ctx, o.profiles(opt, round), durable, func() error { return b.publishEvenly(ctx, stream, o.n) })
}

// publishEvenly publishes n messages at latencyRate. One that is late is published at once; its time is when that is, so that the
// publisher's own delay is not measured.
func (b *bed) publishEvenly(ctx context.Context, subject string, n int) error {
	time.Sleep(300 * time.Millisecond) // the child connects
	body := make([]byte, bodySize)
	began := time.Now()
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / latencyRate)))
		binary.LittleEndian.PutUint64(body, uint64(time.Now().UnixNano()))
		if err := b.nc.Publish(subject, body); err != nil {
			return err
		}
	}
	return b.nc.Flush()
}

// percentile of the latencies, 100 for the longest.
func (r run) percentile(p float64) time.Duration {
	return r.Latencies[min(int(float64(len(r.Latencies))*p/100), len(r.Latencies)-1)]
}

func latencyTable(w *table, opt options, runs map[string][]run) {
	w.title("Latency: publish to handler, %d single messages a second for %v, %d rounds, medians in µs; x: against consume in the same round",
		latencyRate, opt.latencyFor, opt.turns)
	w.row("contestant", "p50", "x", "p90", "p99", "x", "p99.9", "max")
	at := func(p float64) func(run) float64 {
		return func(r run) float64 { return float64(r.percentile(p)) / float64(time.Microsecond) }
	}
	var lines []figures.Line
	base := runs["consume"]
	for _, who := range opt.who {
		if rs := runs[who.label()]; rs != nil {
			w.row(who.label(), fmt.Sprintf("%.0f", medianOf(rs, at(50))), times(rs, base, at(50)), fmt.Sprintf("%.0f", medianOf(rs, at(90))),
				fmt.Sprintf("%.0f", medianOf(rs, at(99))), times(rs, base, at(99)), fmt.Sprintf("%.0f", medianOf(rs, at(99.9))), fmt.Sprintf("%.0f", medianOf(rs, at(100))))
			line := figures.Line{Name: who.label()}
			for _, p := range []float64{50, 75, 90, 95, 99, 99.5, 99.9} { // the part that is slower, so that an axis of logarithms shows the end of it
				line.Add(100/(100-p), medianOf(rs, at(p)))
			}
			lines = append(lines, line)
		}
	}
	w.flush()
	w.chart(figures.Chart{Name: "latency", Title: "One message alone: from publish to handler", X: figures.Axis{Label: "one message in so many is slower", Log: true},
		Y: figures.Axis{Label: "µs", Log: true}, Lines: lines})
	for _, name := range []string{"ackfloor-confirm", "ackfloor-send"} {
		w.aim("p50, "+name+", against consume", ratio(runs[name], base, at(50)), atMost, 1)
		w.aim("p99, "+name+", against consume", ratio(runs[name], base, at(99)), atMost, 1)
	}
}
