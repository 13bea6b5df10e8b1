package main

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/spf13/cobra"
)

// command is one call of the program.
type command struct {
	*screen
	connect connectFlags
	json    bool // one object a line instead of words and tables
	began   bool // the arguments were in order: what fails now is no wrong usage
}

// run is the program. It returns the exit code.
func run(ctx context.Context, s *screen, args []string) int {
	c := &command{screen: s}
	root := c.root()
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	called, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitCode(ctx, nil)
	}
	if !c.began { // what cobra says of flags and arguments
		err = &coded{exitUsage, err}
	}
	code := exitCode(ctx, err)
	switch {
	case code > 128:
		s.say("interrupted")
	case !errors.Is(err, errSaid):
		s.say("ackfloor: %s", shown(err))
	}
	if code == exitUsage {
		s.say("See %s --help.", called.CommandPath())
	}
	return code
}

// errSaid is the error of a command that has said itself what went wrong.
var errSaid = errors.New("said already")

func (c *command) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "ackfloor",
		Short:         "Look after NATS JetStream workers: what they could not handle, and where they stand",
		Long:          "Look after NATS JetStream workers: what they could not handle, and where they stand.\n\n" + exitCodes,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(c.deadLetters(), c.cursors(), c.permissions(), c.check())
	return root
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// onLetters is what is done on the letters of a place that a filter matches.
type onLetters func(ctx context.Context, p *place, filter deadletter.Filter) error

// looks makes what a command runs that reads letters by its filters.
func (c *command) looks(f *filterFlags, do onLetters) func(*cobra.Command, []string) error {
	return c.over(func([]string) (deadletter.Filter, error) { return f.filter(time.Now()) }, do)
}

// acts makes what a command runs that does something to the letters of a choice.
func (c *command) acts(ch *choice, do onLetters) func(*cobra.Command, []string) error {
	return c.over(func(args []string) (deadletter.Filter, error) {
		ch.numbers = args
		return ch.check(c.screen)
	}, do)
}

// over finds the filter, which needs no server, and opens the place.
func (c *command) over(find func(args []string) (deadletter.Filter, error), do onLetters) func(*cobra.Command, []string) error {
	return c.runs(func(ctx context.Context, args []string) error {
		filter, err := find(args)
		if err != nil {
			return err
		}
		p, err := c.open(ctx)
		if err != nil {
			return err
		}
		defer p.close()
		return do(ctx, p, filter)
	})
}

// runs makes a function the RunE of a cobra command.
func (c *command) runs(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c.began = true
		return f(cmd.Context(), args)
	}
}
