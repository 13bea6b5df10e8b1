package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/bench/internal/figures"
	"github.com/ackfloor/ackfloor/worker"
	"go.uber.org/zap"
)

// The mode keys: messages over so many keys, each handled for a random time, by one worker that keeps keys in order; beside it the best that is possible.

const (
	modeKeys = "keys"
	keysWork = 5 * time.Millisecond // at the most; half of it on average
)

var keyCounts = []int{1, 2, 5, 10, 20, 100, 1000, 0} // 0: no order

// keyRun is what one turn measured.
type keyRun struct {
	took time.Duration // from the first handler's start to the last one's end
	work time.Duration // of all handlers together
}

// best is how long it would take if nothing but the handlers' work took time.
func (k keyRun) best(keys int) time.Duration {
	if keys == 0 || keys > slots {
		keys = slots
	}
	return k.work / time.Duration(keys)
}

// ordered measures, and writes the table.
func ordered(ctx context.Context, b *bed, opt options, t *table) error {
	const stream = "KEYS"
	if err := b.stream(ctx, stream); err != nil {
		return err
	}
	if err := b.fill(ctx, stream, opt.keysN, bodySize); err != nil {
		return err
	}
	t.title("Order by key: %d messages, handled for 0 to %v, %d slots; best: the handlers' time / min(keys, slots)", opt.keysN, keysWork, slots)
	t.row("keys", "took", "best", "of the best", "msgs/s")
	worst := 1.0
	reached, possible := figures.Line{Name: "ackfloor"}, figures.Line{Name: "possible"}
	for _, keys := range keyCounts {
		r, err := b.keyed(ctx, stream, keys, opt.keysN)
		if err != nil {
			return err
		}
		share := float64(r.best(keys)) / float64(r.took)
		worst = min(worst, share)
		name := strconv.Itoa(keys)
		if keys == 0 {
			name = "no order"
		} else {
			reached.Add(float64(keys), float64(opt.keysN)/r.took.Seconds())
			possible.Add(float64(keys), float64(opt.keysN)/r.best(keys).Seconds())
		}
		opt.progress("keys: %s: %v, best %v", name, r.took, r.best(keys))
		t.row(name, r.took.Round(time.Millisecond).String(), r.best(keys).Round(time.Millisecond).String(), fmt.Sprintf("%.3f", share),
			fmt.Sprintf("%.0f", float64(opt.keysN)/r.took.Seconds()))
	}
	t.flush()
	t.chart(figures.Chart{Name: "keys", Title: "Order by key", X: figures.Axis{Label: "keys", Log: true}, Y: figures.Axis{Label: "messages a second", Log: true}, Lines: []figures.Line{reached, possible}})
	t.aim("order by key, the least share of the best", worst, atLeast, 0.9)
	return nil
}

// keyed runs one turn.
func (b *bed) keyed(ctx context.Context, stream string, keys, n int) (keyRun, error) {
	durable, err := b.durable(ctx, stream, "keys", 0)
	if err != nil {
		return keyRun{}, err
	}
	name := durable.CachedInfo().Name
	defer b.forget(ctx, stream, name)
	cfg := worker.Config{Logger: zap.NewNop(), DeadLetter: "off", Records: "off"}
	if keys > 0 {
		names := keyNames(keys)
		cfg.Key = func(m *ackfloor.Message) string { return names[rand.New(rand.NewPCG(m.Sequence, 1)).IntN(keys)] }
	}
	var begun, ended, work, handled atomic.Int64
	all := make(chan struct{})
	h := ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
		start := time.Now()
		begun.CompareAndSwap(0, start.UnixNano())
		time.Sleep(time.Duration(rand.New(rand.NewPCG(m.Sequence, 2)).Int64N(int64(keysWork))))
		end := time.Now()
		work.Add(int64(end.Sub(start)))
		if handled.Add(1) == int64(n) {
			ended.Store(end.UnixNano())
			close(all)
		}
		return nil
	})
	_, stop, err := startWorker(ctx, b.at(stream, name), cfg, h)
	if err != nil {
		return keyRun{}, err
	}
	select {
	case <-all:
	case <-ctx.Done():
		return keyRun{}, context.Cause(ctx)
	}
	return keyRun{time.Duration(ended.Load() - begun.Load()), time.Duration(work.Load())}, stop()
}

// keyNames are n keys.
func keyNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "key-" + strconv.Itoa(i)
	}
	return names
}

// tenThousand takes one of 10,000 keys.
func tenThousand() func(*ackfloor.Message) string {
	names := keyNames(10_000)
	return func(m *ackfloor.Message) string { return names[m.Sequence%10_000] }
}
