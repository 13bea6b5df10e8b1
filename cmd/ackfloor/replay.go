package main

import (
	"context"
	"iter"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/spf13/cobra"
)

func (c *command) replay() *cobra.Command {
	var ch choice
	wait := false
	cmd := &cobra.Command{
		Use:   "replay N... | --all | filters",
		Short: "Send dead letters back to the consumer that failed",
		Long: `Send dead letters back to the consumer that failed, and to no other: its workers get the message with its own subject, headers and sequence. A
letter is replayed once, however often this is called; one whose replay fails becomes a new letter. --all and filters mean letters that
nobody has replayed, unless --state says otherwise.

On a terminal it asks before; elsewhere it takes --yes. Interrupted with Ctrl-C it says how many were done; the same command goes on. To wait
again for what is on its way, and for nothing else: --state replaying --wait. It waits for as long as it takes, also for a worker to be there.`,
		Example: `  ackfloor dead-letters replay --consumer orders --since 2h --dry-run
  ackfloor dead-letters replay --consumer orders --since 2h --yes --wait
  ackfloor dead-letters replay 17 18`,
	}
	c.choiceFlags(cmd, &ch)
	cmd.Flags().BoolVarP(&wait, "wait", "w", false, "wait, without a limit, until they are handled or have failed again, and tell how many of each")
	cmd.RunE = c.acts(&ch, func(ctx context.Context, p *place, filter deadletter.Filter) error {
		if filter.State == "" {
			filter.State = deadletter.StateOpen
		}
		b := &batch{command: c, place: p, verb: "replay", past: "replayed"}
		if b.one = p.again; len(ch.numbers) == 0 {
			ahead := &reader{place: p, filter: filter}
			defer ahead.close()
			b.one = ahead.again
		}
		sent, err := b.run(ctx, ch, filter)
		if err == nil && len(sent) > 0 {
			b.sayIdle(ctx, "", sent)
			if wait {
				err = b.wait(ctx, sent)
			}
		}
		return b.end(err)
	})
	return cmd
}

// again replays one letter, which it fetches.
func (p *place) again(ctx context.Context, k pick) (deed, error) {
	l, err := p.Get(ctx, k.sequence)
	if err != nil {
		return deed{}, err
	}
	return p.send(ctx, l)
}

func (p *place) send(ctx context.Context, l *deadletter.Letter) (deed, error) {
	r, err := p.Replay(ctx, l)
	switch {
	case err != nil:
		return deed{}, err
	case r.Already:
		return deed{result: resultAlready, replay: r.Sequence}, nil
	}
	return deed{result: resultReplayed, replay: r.Sequence}, nil
}

// reader reads the letters once more, many at a time, while they are replayed: half of the requests that fetching each would take. They are not
// kept from when they were chosen, since nobody knows how large they are.
type reader struct {
	place  *place
	filter deadletter.Filter
	next   func() (*deadletter.Letter, error, bool)
	stop   func()
	letter *deadletter.Letter // that was read last, and is not past what is asked for
}

// again is place.again for letters in the order of the list.
func (r *reader) again(ctx context.Context, k pick) (deed, error) {
	if r.next == nil {
		r.filter.State = "" // what somebody else has replayed since is to be told from what was removed
		r.next, r.stop = iter.Pull2(r.place.List(context.WithoutCancel(ctx), r.filter))
	}
	for r.letter == nil || r.letter.Sequence < k.sequence {
		l, err, ok := r.next()
		switch {
		case !ok:
			return deed{}, deadletter.ErrNotFound
		case err != nil:
			return deed{}, unavailablef("%w", err) // there is nothing to go on with
		}
		r.letter = l
	}
	if r.letter.Sequence > k.sequence {
		return deed{}, deadletter.ErrNotFound
	}
	return r.place.send(ctx, r.letter)
}

func (r *reader) close() {
	if r.stop != nil {
		r.stop()
	}
}
