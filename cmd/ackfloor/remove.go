package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (c *command) remove() *cobra.Command {
	var ch choice
	cmd := &cobra.Command{
		Use:     "rm N... | --all | filters",
		Aliases: []string{"remove"},
		Short:   "Remove dead letters for good",
		Long: `Remove dead letters for good, in whatever state: there is no way to get them back. On a terminal it asks before; elsewhere it takes --yes. The
replay of a letter that was replayed stays, and is handled.`,
		Example: `  ackfloor dead-letters rm 17 18
  ackfloor dead-letters rm --state handled --until 7d --dry-run`,
	}
	c.choiceFlags(cmd, &ch)
	cmd.RunE = c.runs(func(ctx context.Context, args []string) error {
		ch.numbers = args
		filter, err := ch.check(c.screen)
		if err != nil {
			return err
		}
		p, err := c.open(ctx)
		if err != nil {
			return err
		}
		defer p.close()
		b := &batch{command: c, place: p, verb: "remove", past: "removed", one: func(ctx context.Context, k pick) (deed, error) {
			return deed{result: resultRemoved}, p.Remove(ctx, k.sequence)
		}}
		_, err = b.run(ctx, ch, filter)
		return b.end(err)
	})
	return cmd
}
