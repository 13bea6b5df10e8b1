package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/shutdown"
)

const (
	waitStep = 250 * time.Millisecond
	waitHint = 10 * time.Second // nothing settled for so long: somebody should look for a worker
)

// wait waits until the replays of these letters are settled, and tells what became of them.
func (b *batch) wait(ctx context.Context, sent []pick) error {
	bar := b.bar("wait", len(sent), b.json)
	defer bar.clear()
	var left []*queue
	for _, k := range sent {
		i := slices.IndexFunc(left, func(q *queue) bool { return q.stream == k.stream && q.consumer == k.consumer })
		if i < 0 {
			i = len(left)
			left = append(left, &queue{stream: k.stream, consumer: k.consumer})
		}
		left[i].picks = append(left[i].picks, k)
	}
	b.tally.Waiting = len(sent)
	var gone []pick
	settled := func(k pick, handled bool) error {
		b.tally.Waiting--
		defer bar.add()
		if !handled {
			gone = append(gone, k)
			return nil
		}
		return b.settled(bar, k, deed{result: resultHandled}, "")
	}
	var err error
	hint := time.Now().Add(waitHint)
	for {
		before := b.tally.Waiting
		for _, q := range left {
			if err = q.look(ctx, b.place, settled); err != nil {
				break
			}
		}
		if err != nil || b.tally.Waiting == 0 {
			break
		}
		if b.tally.Waiting < before {
			hint = time.Now().Add(waitHint)
		} else if time.Now().After(hint) {
			bar.clear()
			if !b.sayIdle(ctx, "still waiting: ", waiting(left)) {
				b.say("nothing was settled for %v: does a worker of that consumer run?", waitHint)
			}
			hint = time.Now().Add(time.Hour)
		}
		if err = pause(ctx, waitStep); err != nil {
			break
		}
	}
	err = errors.Join(err, b.failedAgain(context.WithoutCancel(ctx), bar, gone))
	bar.clear()
	b.say("of the replays %d handled, %d failed again, %d not settled yet%s", b.tally.Handled, b.tally.FailedAgain, b.tally.Waiting,
		suffixIf(b.tally.Gone > 0, fmt.Sprintf(", %d removed", b.tally.Gone)))
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// waiting are the replays that are not settled.
func waiting(left []*queue) []pick {
	var picks []pick
	for _, q := range left {
		picks = append(picks, q.picks...)
	}
	return picks
}

// queue is the replays of one consumer, in the order in which they are stored.
type queue struct {
	stream, consumer string
	picks            []pick
}

// look settles what it can from the front on. A replay counts as handled once all before it are settled, so there is nothing to see behind one
// that waits, and thousands of replays cost no more requests than a few.
func (q *queue) look(ctx context.Context, p *place, settled func(k pick, handled bool) error) error {
	for len(q.picks) > 0 {
		k := q.picks[0]
		state, err := p.fate(ctx, k)
		if err != nil || state == deadletter.StateReplaying {
			return err
		}
		if err := settled(k, state == deadletter.StateHandled); err != nil {
			return err
		}
		q.picks = q.picks[1:]
	}
	return nil
}

// fate is what has become of a replayed letter: handled, still replaying, or open for one that is not there any more, since a new one has taken
// its place or somebody removed it.
func (p *place) fate(ctx context.Context, k pick) (deadletter.State, error) {
	l, err := p.get(ctx, k.sequence)
	if err == nil && l.State == deadletter.StateHandled {
		// The letter was read before its state: a replay that failed in between has replaced it by now, and only then counts as settled.
		l, err = p.get(ctx, k.sequence)
	}
	switch {
	case errors.Is(err, deadletter.ErrNotFound):
		return deadletter.StateOpen, nil
	case err != nil && !errors.Is(err, deadletter.ErrIncomplete):
		return "", err
	}
	return l.State, nil
}

// failedAgain tells which of the letters that are gone have a new one in their place.
func (b *batch) failedAgain(ctx context.Context, bar *bar, gone []pick) error {
	if len(gone) == 0 {
		return nil
	}
	again, err := b.place.successors(ctx)
	if err != nil {
		return err
	}
	for _, k := range gone {
		d, why := deed{result: resultGone}, ""
		if l := again[k.sequence]; l != nil {
			d, why = deed{result: resultAgain, again: l.Sequence}, l.Error
		}
		if err := b.settled(bar, k, d, why); err != nil {
			return err
		}
	}
	return nil
}

// settled counts and reports what became of a replay. A failure is told also where a bar stands for the lines.
func (b *batch) settled(bar *bar, k pick, d deed, why string) error {
	b.tally.count(d.result)
	if d.result == resultAgain && bar.shown {
		bar.clear()
		b.say("letter %d failed again, as letter %d: %s", k.sequence, d.again, printable(why))
	}
	if bar.shown && b.outWidth > 0 {
		return nil
	}
	var err error
	if why != "" {
		err = &coded{shutdown.ExitFailed, errors.New(why)}
	}
	return b.report(k, d, err)
}
