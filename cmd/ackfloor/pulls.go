package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/nats-io/nats.go/jetstream"
)

// Between two pulls of a worker none waits for a moment, so one look tells nothing.
const (
	pullLooks = 5
	pullStep  = 150 * time.Millisecond
	pullWait  = time.Second // for an answer; who may not ask gets none
)

// sayIdle says of whose replays nobody takes any now: without it, a replay that nothing happens to looks like one that failed. It
// tells whether it said something.
func (b *batch) sayIdle(ctx context.Context, before string, picks []pick) (said bool) {
	var asked []string
	for _, k := range picks {
		name := deadletter.ReplayConsumer(k.stream, k.consumer)
		if k.state == deadletter.StateHandled || slices.Contains(asked, name) {
			continue
		}
		asked = append(asked, name)
		idle, err := b.place.idle(ctx, name)
		if err != nil {
			break // it can't be known, of the others neither
		}
		if idle {
			said = true
			b.say("%sno worker of consumer %s is pulling replays now: they are handled when one runs", before, printable(b.place.whose(k.stream, k.consumer)))
		}
	}
	return said
}

// idle tells whether nobody pulls from a consumer of replays and nobody holds one of them.
func (p *place) idle(ctx context.Context, name string) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, min(p.timeout, pullLooks*pullStep+pullWait))
	defer cancel()
	for i := range pullLooks {
		c, err := p.js.Consumer(limited, p.name, name)
		switch {
		case errors.Is(err, jetstream.ErrConsumerNotFound):
			return true, nil
		case err != nil:
			return false, err
		}
		if info := c.CachedInfo(); info.NumWaiting > 0 || info.NumAckPending > 0 {
			return false, nil
		}
		if i < pullLooks-1 {
			if err := pause(limited, pullStep); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}
