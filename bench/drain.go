package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	modeDrain  = "drain"
	pullExpiry = time.Second // worker.Config's default
	drainLimit = pullExpiry + 200*time.Millisecond
	idleFirst  = 200 * time.Millisecond // until it is bound and its first pull waits
)

var drainNames = map[string]bool{"consume": true, "ackfloor-confirm": true, "ackfloor-send": true}

// drainTimes starts an idle worker and stops it, n times, each at a random moment of its pull's life.
func drainTimes(ctx context.Context, who contestant, o order) (report, error) {
	var rep report
	for range o.n {
		stop, err := who.start(ctx, o.target, func([]byte) {})
		if err != nil {
			return rep, err
		}
		time.Sleep(idleFirst + rand.N(pullExpiry))
		began := time.Now()
		if err := stop(); err != nil {
			return rep, err
		}
		rep.Drains = append(rep.Drains, time.Since(began))
	}
	slices.Sort(rep.Drains)
	return rep, nil
}

func drain(ctx context.Context, b *bed, opt options) (map[string][]run, error) {
	const stream = "DRAIN"
	if err := b.stream(ctx, stream); err != nil {
		return nil, err
	}
	runs := make(map[string][]run)
	for _, who := range opt.who {
		if !drainNames[who.name] {
			continue
		}
		durable, err := b.durable(ctx, stream, who.name, 0)
		if err != nil {
			return nil, err
		}
		o := order{mode: modeDrain, name: who.name, build: who.build, n: opt.drains, target: b.at(stream, durable.CachedInfo().Name)}
		r, err := b.turn(ctx, o, durable, nil)
		if err != nil {
			return nil, err
		}
		opt.progress("drain: %-16s at the most %v", who.label(), r.Drains[len(r.Drains)-1])
		runs[who.label()] = append(runs[who.label()], r)
	}
	return runs, nil
}

func drainTable(w *table, opt options, runs map[string][]run) {
	w.title("Drain of an idle worker, from the end of Run's context to its return, %d times, in ms; pull expiry %v (consume: Drain, then Closed)",
		opt.drains, pullExpiry)
	w.row("contestant", "min", "median", "max")
	ms := func(d time.Duration) string { return fmt.Sprintf("%.0f", float64(d)/float64(time.Millisecond)) }
	for _, who := range opt.who {
		for _, r := range runs[who.label()] {
			d := r.Drains
			w.row(who.label(), ms(d[0]), ms(d[len(d)/2]), ms(d[len(d)-1]))
		}
	}
	w.flush()
	for _, name := range []string{"ackfloor-confirm", "ackfloor-send"} {
		for _, r := range runs[name] {
			w.aim("longest idle drain in s, "+name, r.Drains[len(r.Drains)-1].Seconds(), atMost, drainLimit.Seconds())
		}
	}
}
