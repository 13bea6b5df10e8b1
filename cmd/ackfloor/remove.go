package main

import (
	"context"
	"fmt"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/spf13/cobra"
)

func (c *command) remove() *cobra.Command {
	var ch choice
	cmd := &cobra.Command{
		Use:     "rm N... | --all | filters",
		Aliases: []string{"remove"},
		Short:   "Remove dead letters for good",
		Long: `Remove dead letters for good, in whatever state: there is no way to get them back. On a terminal it asks before; elsewhere it takes --yes. The
replay of a letter in state replaying is still on its way, and will be handled all the same.`,
		Example: `  ackfloor dead-letters rm 17 18
  ackfloor dead-letters rm --state handled --until 7d --dry-run`,
	}
	c.choiceFlags(cmd, &ch)
	cmd.RunE = c.acts(&ch, func(ctx context.Context, p *place, filter deadletter.Filter) error {
		b := &batch{command: c, place: p, verb: "remove", past: "removed", one: func(ctx context.Context, k pick) (deed, error) {
			return deed{result: resultRemoved}, p.Remove(ctx, k.sequence)
		}}
		_, err := b.run(ctx, ch, filter)
		return b.end(err)
	})
	return cmd
}

// stillReplayed says of letters that were removed that their replays are not.
func (b *batch) stillReplayed(finished []pick) string {
	if b.verb != "remove" {
		return ""
	}
	n := 0
	for _, k := range finished {
		if k.state == deadletter.StateReplaying {
			n++
		}
	}
	return onTheirWay(n, len(finished))
}

// onTheirWay says what becomes of the replays of letters that are removed, of which n are replaying.
func onTheirWay(n, of int) string {
	switch {
	case n == 0:
		return ""
	case of == 1:
		return "; its replay is still on its way and will be handled all the same"
	case n == 1:
		return "; the replay of 1 of them is still on its way and will be handled all the same"
	}
	return fmt.Sprintf("; the replays of %d of them are still on their way and will be handled all the same", n)
}
