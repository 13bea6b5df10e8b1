package main

import (
	"context"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/spf13/cobra"
)

func (c *command) watch() *cobra.Command {
	var f filterFlags
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print new dead letters as they come, until Ctrl-C",
		Long: `Print new dead letters as they come, until Ctrl-C, which is its ordinary end: the exit code is 0. With --limit it ends by itself after so
many.`,
		Example: `  ackfloor dead-letters watch --consumer orders
  ackfloor dead-letters watch --json --limit 1`,
		Args:              noNumbers,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.filterFlags(cmd, &f)
	cmd.RunE = c.looks(&f, func(ctx context.Context, p *place, filter deadletter.Filter) error {
		table := c.letters(p)
		table.live = true
		c.say("watching %s, Ctrl-C ends it", p.name)
		n := 0
		for l, err := range p.Watch(ctx, filter) {
			if err != nil {
				return unavailable(err)
			}
			if err := table.letter(ctx, l); err != nil {
				return err
			}
			table.flush()
			if n++; n == f.limit {
				break
			}
		}
		return nil
	})
	return cmd
}
