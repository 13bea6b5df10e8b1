package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/limit"
	"github.com/ackfloor/ackfloor/worker"
	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// gateRow is a gate that holds nothing up, around a handler that does nothing: what is left is what it costs.
type gateRow struct {
	name string
	gate func() (worker.Gate, error)
}

func gateRows() []gateRow {
	const plenty = 1e9 // a second
	open := func() (worker.Gate, error) { return limit.Rate(rate.NewLimiter(plenty, 1e9)) }
	adaptive := func() (worker.Gate, error) { return limit.NewAdaptive(limit.AdaptiveConfig{Min: slots, Max: slots}) }
	return []gateRow{
		{"no gate", func() (worker.Gate, error) { return nil, nil }},
		{"passes all", func() (worker.Gate, error) { return limit.All() }},
		{"Rate", open},
		{"ByKey, 1000 keys", func() (worker.Gate, error) {
			return limit.ByKey(limit.KeyConfig{Limit: plenty, Burst: 1e9, Key: func(m *ackfloor.Message) string { return thousand[m.Sequence%1000] }})
		}},
		{"Adaptive", adaptive},
		{"Rate, Adaptive", func() (worker.Gate, error) {
			first, err := open()
			if err != nil {
				return nil, err
			}
			second, err := adaptive()
			if err != nil {
				return nil, err
			}
			return limit.All(first, second)
		}},
	}
}

var thousand = func() (keys [1000]string) {
	for i := range keys {
		keys[i] = fmt.Sprintf("customer-%d", i)
	}
	return keys
}()

// gateCosts has a worker handle the same stream behind each gate in turn, round after round.
func (b *bed) gateCosts(ctx context.Context, opt options, t *table) error {
	const stream = "GATES"
	if err := b.stream(ctx, stream); err != nil {
		return err
	}
	if err := b.fill(ctx, stream, opt.limitN, bodySize); err != nil {
		return err
	}
	runs := make(map[string][]run)
	for round := range opt.limitRounds + 1 {
		for _, row := range gateRows() {
			r, err := b.gateCost(ctx, stream, row, opt.limitN)
			if err != nil {
				return err
			}
			if round > 0 { // the first is not counted: it reads the stream once
				opt.progress("limit: round %d: %-16s %7.0f msgs/s", round, row.name, r.rate())
				runs[row.name] = append(runs[row.name], r)
			}
		}
	}
	t.title("Gates that hold nothing up, a handler that does nothing: %d messages of %d bytes, %d slots, %d rounds, medians; x: against no gate in the same round",
		opt.limitN, bodySize, slots, opt.limitRounds)
	t.row("", "msgs/s", "x", "CPU µs/msg", "more", "allocs/msg")
	cpu := func(r run) float64 { return float64(r.Usage.CPU.Microseconds()) / float64(r.n) }
	base := runs[gateRows()[0].name]
	for _, row := range gateRows() {
		rs := runs[row.name]
		t.row(row.name, fmt.Sprintf("%.0f", medianOf(rs, run.rate)), times(rs, base, run.rate),
			fmt.Sprintf("%.2f", medianOf(rs, cpu)), fmt.Sprintf("%+.2f", medianOf(rs, cpu)-medianOf(base, cpu)),
			fmt.Sprintf("%.2f", medianOf(rs, func(r run) float64 { return float64(r.Usage.Mallocs) / float64(r.n) })))
	}
	t.flush()
	return nil
}

// gateCost is one turn, in this process.
func (b *bed) gateCost(ctx context.Context, stream string, row gateRow, n int) (run, error) {
	durable, err := b.durable(ctx, stream, "gate", 0)
	if err != nil {
		return run{}, err
	}
	name := durable.CachedInfo().Name
	defer b.forget(ctx, stream, name)
	gate, err := row.gate()
	if err != nil {
		return run{}, err
	}
	var handled, first atomic.Int64
	all := make(chan struct{})
	h := ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
		switch handled.Add(1) {
		case 1:
			first.Store(time.Now().UnixNano())
		case int64(n):
			close(all)
		}
		return nil
	})
	before := used()
	_, stop, err := startWorker(ctx, b.at(stream, name), worker.Config{Gate: gate, DeadLetter: "off", Records: "off", Logger: zap.NewNop()}, h)
	if err != nil {
		return run{}, err
	}
	select {
	case <-all:
	case <-ctx.Done():
		_ = stop()
		return run{}, context.Cause(ctx)
	}
	ended, err := settled(ctx, durable)
	if err != nil {
		return run{}, err
	}
	usage := used().since(before)
	if err := stop(); err != nil {
		return run{}, err
	}
	return run{n: n, report: report{Usage: usage, First: time.Unix(0, first.Load())}, settled: ended}, nil
}
