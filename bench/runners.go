package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
	"github.com/nats-io/nats.go/jetstream"
)

// The mode runners: a hundred Runners in one process, each on a durable of its own, at work and idle.

const (
	modeRunners  = "runners"
	idleLimit    = 0.02 // of a core: the aim for what waits
	runnerCount  = 100
	runnersPause = 500 * time.Millisecond
)

func manyRunners(ctx context.Context, b *bed, opt options, t *table) error {
	const stream = "RUNNERS"
	all := lasts(opt.lasting, 100_000, runnerCount, 200_000)
	if err := errors.Join(b.stream(ctx, stream), b.fill(ctx, stream, all, bodySize)); err != nil {
		return err
	}
	t.title("Runners in one process, each on a durable of its own: %d messages of %d bytes among them, then idle for %v", all, bodySize, 2*opt.lasting)
	t.row("Runners", "msgs/s", "CPU µs/msg", "server CPU", "peak RSS MB", "goroutines", "idle: % of a core", "of the server")
	rss := figures.Line{Name: "resident memory"}
	for _, n := range []int{1, 10, runnerCount} {
		s, quiet, server, err := b.runners(ctx, stream, n, all, 2*opt.lasting)
		if err != nil {
			return err
		}
		per := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/float64(s.n)) }
		t.row(fmt.Sprint(n), fmt.Sprintf("%.0f", s.rate()), per(s.cpu), per(s.server.CPU),
			fmt.Sprintf("%.1f", mb(s.peak())), fmt.Sprint(s.reports[0].Goroutines), fmt.Sprintf("%.2f", 100*quiet), fmt.Sprintf("%.2f", 100*server))
		opt.progress("runners: %d: %.0f msgs/s, idle %.2f %% of a core", n, s.rate(), 100*quiet)
		rss.Add(float64(n), mb(s.peak()))
		if n == runnerCount {
			t.flush()
			t.aim("100 Runners in one process: MB of memory for each", mb(s.peak())/runnerCount, atMost, 2)
		}
	}
	t.chart(figures.Chart{Name: "runners", Title: "Runners in one process: resident memory", X: figures.Axis{Label: "Runners", Log: true}, Y: figures.Axis{Label: "MB"}, Lines: []figures.Line{rss}})
	return nil
}

// runners has one process run so many, each on an equal share of all messages, and looks at its CPU once they have nothing to do: as shares of a core, of it and of the server.
func (b *bed) runners(ctx context.Context, stream string, n, all int, idleFor time.Duration) (s shared, idle, server float64, err error) {
	b.made++
	base := fmt.Sprintf("runner-%d", b.made)
	until := time.Now().Add(time.Hour)
	var durables []jetstream.Consumer
	for i := range n {
		name := base
		if i > 0 {
			name = fmt.Sprintf("%s-%d", base, i)
		}
		c, err := b.consumer(ctx, stream, jetstream.ConsumerConfig{
			Durable: name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, PauseUntil: &until,
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: uint64(all - all/n + 1),
		})
		if err != nil {
			return s, 0, 0, err
		}
		defer b.forget(context.WithoutCancel(ctx), stream, name)
		durables = append(durables, c)
	}
	begin := func() error {
		var faults []error
		for _, c := range durables {
			_, err := b.js.ResumeConsumer(ctx, stream, c.CachedInfo().Name)
			faults = append(faults, err)
		}
		return errors.Join(faults...)
	}
	allSettled := func(ctx context.Context) (at time.Time, err error) {
		for _, c := range durables {
			if at, err = settled(ctx, c); err != nil {
				return at, err
			}
		}
		return at, nil
	}
	o := order{name: "ackfloor", target: target{url: b.url, stream: stream, consumer: base}, share: share{slots: slots, runners: n}}
	if s, err = b.together(ctx, []order{o}, all/n*n, begin, allSettled); err != nil {
		return s, 0, 0, err
	}
	// The same once more with nothing to do: what it uses then is the idle time's.
	quiet, err := b.together(ctx, []order{o}, 1, func() error { return nil }, func(ctx context.Context) (time.Time, error) { return waited(ctx, runnersPause+idleFor) })
	if err != nil {
		return s, 0, 0, err
	}
	idle, server = quiet.cores()
	return s, idle, server, nil
}

// waited returns when the time is over, or ctx.
func waited(ctx context.Context, d time.Duration) (time.Time, error) {
	select {
	case <-time.After(d):
		return time.Now(), nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}
