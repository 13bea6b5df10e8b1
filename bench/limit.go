package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/limit"
	"github.com/ackfloor/ackfloor/retry"
	"github.com/ackfloor/ackfloor/worker"
	"go.uber.org/zap"
)

// The mode limit runs in this process, and not with all the others: what it compares are gates, and it is the called service that decides.
const modeLimit = "limit"

// servicePhases are how many workers the service has, one phase after another.
var servicePhases = []int{16, 4, 32}

// gated is one row: so many slots, behind a gate or none.
type gated struct {
	name  string
	slots int
	gate  func() (worker.Gate, error)
}

func gatedRows() []gated {
	adaptive := func(window time.Duration) func() (worker.Gate, error) {
		return func() (worker.Gate, error) {
			return limit.NewAdaptive(limit.AdaptiveConfig{Min: 2, Max: 64, Initial: 16, Window: window, Samples: 25})
		}
	}
	return []gated{
		{name: "4 slots", slots: 4},
		{name: "16 slots", slots: 16},
		{name: "64 slots", slots: 64},
		{name: "64, adaptive, 1s", slots: 64, gate: adaptive(time.Second)},
		{name: "64, adaptive, 250ms", slots: 64, gate: adaptive(250 * time.Millisecond)},
	}
}

// called is one call of a handler.
type called struct {
	began time.Time
	took  time.Duration
	ok    bool
}

// callLog is what the handlers of one row did, and the limits that they ran under.
type callLog struct {
	mu     sync.Mutex
	calls  []called
	limits []int // once a second; none without an Adaptive
}

// limits measures and writes the tables of the mode limit.
func limits(ctx context.Context, b *bed, opt options, t *table) error {
	if err := b.changing(ctx, opt, t); err != nil {
		return err
	}
	return b.gateCosts(ctx, opt, t)
}

// changing has all rows at once call a service each, whose capacity changes: they sleep most of the time, and so take no time from one another.
func (b *bed) changing(ctx context.Context, opt options, t *table) error {
	const stream = "LIMIT"
	total := time.Duration(len(servicePhases)) * opt.limitFor
	n := int(total.Seconds()*float64(slices.Max(servicePhases))/serviceTime.Seconds()) + 1000
	if err := b.stream(ctx, stream); err != nil {
		return err
	}
	opt.progress("limit: filling the stream with %d messages", n)
	if err := b.fill(ctx, stream, n, smallBody); err != nil {
		return err
	}
	opt.progress("limit: %d phases of %v", len(servicePhases), opt.limitFor)
	rows := gatedRows()
	logs := make([]callLog, len(rows))
	errs := make([]error, len(rows))
	targets := make([]target, len(rows))
	for i := range rows {
		durable, err := b.durable(ctx, stream, modeLimit, 0)
		if err != nil {
			return err
		}
		targets[i] = b.at(stream, durable.CachedInfo().Name)
	}
	began := time.Now()
	var all sync.WaitGroup
	for i, row := range rows {
		all.Go(func() { errs[i] = callChanging(ctx, targets[i], row, began, opt.limitFor, &logs[i]) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	changingTable(t, opt, rows, logs, began)
	return nil
}

// callChanging is one row.
func callChanging(ctx context.Context, to target, row gated, began time.Time, phase time.Duration, log *callLog) error {
	s, err := startService(servicePhases[0])
	if err != nil {
		return err
	}
	cfg := worker.Config{Concurrency: row.slots, MaxAttempts: 1_000_000, Retry: retry.Constant(200 * time.Millisecond), DeadLetter: "off", Records: "off",
		DrainTimeout: 2 * time.Second, Logger: zap.NewNop()}
	var a *limit.Adaptive
	if row.gate != nil {
		if cfg.Gate, err = row.gate(); err != nil {
			return err
		}
		a, _ = cfg.Gate.(*limit.Adaptive)
	}
	_, stop, err := startWorker(ctx, to, cfg, log.recording(s))
	if err != nil {
		return err
	}
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for i, workers := range servicePhases {
		s.setWorkers(workers)
		for end := time.After(time.Until(began.Add(time.Duration(i+1) * phase))); end != nil; {
			select {
			case <-end:
				end = nil
			case <-look.C:
				if a != nil {
					log.limits = append(log.limits, a.Status().Limit)
				}
			}
		}
	}
	var broken *worker.DrainError
	if err := stop(); err != nil && !errors.As(err, &broken) { // some are interrupted, in a queue that is long
		return err
	}
	return s.end()
}

// recording is the handler.
func (l *callLog) recording(s *service) ackfloor.Handler {
	return ackfloor.HandlerFunc(func(ctx context.Context, _ *ackfloor.Message) error {
		began := time.Now()
		err := s.call(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.calls = append(l.calls, called{began, time.Since(began), err == nil})
		return err
	})
}

func changingTable(t *table, opt options, rows []gated, logs []callLog, began time.Time) {
	t.title("A service of 16, then 4, then 32 workers, %v each, %v a call; callers give up after %v; the same for each row at the same time",
		opt.limitFor, serviceTime, serviceTimeout)
	t.row("", "workers", "could/s", "done/s", "failed %", "p50 ms", "p99 ms")
	for i, row := range rows {
		for phase, workers := range servicePhases {
			from := began.Add(time.Duration(phase) * opt.limitFor)
			t.row(append([]string{row.name, fmt.Sprint(workers)}, callFigures(logs[i].calls, from, opt.limitFor, workers)...)...)
		}
	}
	t.flush()
	for i, row := range rows {
		if len(logs[i].limits) > 0 {
			t.note("limit of %q, second by second: %v", row.name, logs[i].limits)
		}
	}
}

// callFigures are those of the calls that ended in a phase; latencies of those that failed too.
func callFigures(calls []called, from time.Time, phase time.Duration, workers int) []string {
	var took []time.Duration
	done := 0
	for _, c := range calls {
		if end := c.began.Add(c.took); end.Before(from) || !end.Before(from.Add(phase)) {
			continue
		}
		took = append(took, c.took)
		if c.ok {
			done++
		}
	}
	could := fmt.Sprintf("%.0f", float64(workers)/serviceTime.Seconds())
	if len(took) == 0 {
		return []string{could, "0", "-", "-", "-"}
	}
	slices.Sort(took)
	ms := func(q float64) string {
		return fmt.Sprintf("%.0f", float64(took[int(q*float64(len(took)-1))])/float64(time.Millisecond))
	}
	return []string{could, fmt.Sprintf("%.0f", float64(done)/phase.Seconds()), fmt.Sprintf("%.1f", 100*float64(len(took)-done)/float64(len(took))), ms(0.5), ms(0.99)}
}
