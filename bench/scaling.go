package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
)

// The mode scaling: what it costs to have more of the server: replicas, partitions, a long way, leaf nodes and gateways.

const modeScaling = "scaling"

func scaling(ctx context.Context, b *bed, opt options, t *table) error {
	var faults []error
	for _, part := range []struct {
		name string
		run  func(context.Context, *bed, options, *table) error
	}{{"round trips", roundTrips}, {"partitions", partitions}, {"replicas", replicas}, {"far servers", farServers}} {
		if err := part.run(ctx, b, opt, t); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", part.name, err))
		}
	}
	return errors.Join(faults...)
}

const tripStream = "TRIPS"

// roundTrips has the worker further and further away, and compares what it reaches with what a window of messages under way allows.
func roundTrips(ctx context.Context, b *bed, opt options, t *table) error {
	have := lasts(opt.lasting, 100_000, 1000, 200_000)
	if err := errors.Join(b.stream(ctx, tripStream), b.fill(ctx, tripStream, have, bodySize)); err != nil {
		return err
	}
	t.title("A long way: one process of %d slots behind a proxy that delays every byte; handlers that do nothing; bound: max_ack_pending / round trip", slots)
	t.row("round trip", "who", "max_ack_pending", "n", "msgs/s", "bound", "of the bound")
	lines := make(map[string]*figures.Line)
	var order []string
	trips := []time.Duration{0, 5 * time.Millisecond, time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond}
	if opt.ends {
		trips = trips[:2] // over a longer way it takes long to start
	}
	slices.Sort(trips)
	for _, trip := range trips {
		for _, row := range []struct {
			name    string
			pending int
		}{{"doubleack", 1000}, {"consume", 1000}, {"ackfloor", 1000}, {"ackfloor", 10_000}} {
			rate, n, err := b.trip(ctx, opt, have, row.name, row.pending, trip)
			if err != nil {
				return err
			}
			bound, share := "-", "-"
			if trip > 0 {
				window := float64(row.pending)
				if row.name == "doubleack" {
					window = 1
				}
				bound, share = fmt.Sprintf("%.0f", window/trip.Seconds()), fmt.Sprintf("%.2f", rate*trip.Seconds()/window)
			}
			t.row(trip.String(), row.name, fmt.Sprint(row.pending), fmt.Sprint(n), fmt.Sprintf("%.0f", rate), bound, share)
			opt.progress("scaling: round trip %v: %s, %d: %.0f msgs/s", trip, row.name, row.pending, rate)
			name := fmt.Sprintf("%s, max_ack_pending %d", row.name, row.pending)
			if lines[name] == nil {
				lines[name], order = &figures.Line{Name: name}, append(order, name)
			}
			if trip > 0 {
				lines[name].Add(trip.Seconds()*1000, rate)
			}
		}
	}
	t.flush()
	c := figures.Chart{Name: "scaling-trips", Title: "Distance to the server", X: figures.Axis{Label: "round trip in ms", Log: true}, Y: figures.Axis{Label: "messages a second", Log: true}}
	for _, name := range order {
		c.Lines = append(c.Lines, *lines[name])
	}
	t.chart(c)
	return b.js.DeleteStream(ctx, tripStream)
}

// trip is one turn behind a proxy, of as many messages as last a while.
func (b *bed) trip(ctx context.Context, opt options, have int, name string, pending int, trip time.Duration) (rate float64, n int, err error) {
	guess, window := 100_000.0, float64(pending)
	if name == "doubleack" {
		guess, window = 5000, 1
	}
	if trip > 0 {
		guess = min(guess, window/trip.Seconds())
	}
	n = lasts(opt.lasting/2, guess, min(have, max(10, 4*int(window))), have) // a few windows at least
	d, err := startDelayed(strings.TrimPrefix(b.url, "nats://"), trip)
	if err != nil {
		return 0, 0, err
	}
	defer d.stop()
	o := order{name: name, target: target{url: d.url()}, share: share{slots: slots, pending: pending}}
	if trip == 0 {
		o.target.url = b.url
	}
	s, err := b.onDurable(ctx, tripStream, uint64(have-n+1), n, pending, o)
	return s.rate(), n, err
}
