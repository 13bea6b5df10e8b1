package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
)

// A completion asks the server what there is. It is quick or says nothing: somebody waits with a finger on the tab key.
const (
	completeWait    = 700 * time.Millisecond
	completeNumbers = 50 // letters that are offered
)

func (c *command) complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // there is no such flag, or it has a completion: a fault of the program
	}
}

// fixed completes words that are always the same.
func fixed(words []string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// asks makes a completion of what a server says.
func (c *command) asks(f func(ctx context.Context) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWait)
		defer cancel()
		c.connect.timeout = completeWait
		words, _ := f(ctx) // what came before an error serves too
		words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, typed) })
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeStreams completes names of dead-letter streams, without their suffix if cut is that.
func (c *command) completeStreams(cut string) cobra.CompletionFunc {
	return c.asks(func(ctx context.Context) ([]string, error) {
		p, err := c.reach(ctx)
		if err != nil {
			return nil, err
		}
		defer p.close()
		names, err := p.streams(ctx, suffix)
		for i := range names {
			names[i] = strings.TrimSuffix(names[i], cut)
		}
		return names, err
	})
}

// completeNames completes names of streams or consumers out of the subjects of the letters, which costs no payload.
func (c *command) completeNames(part func(stream, consumer string) string) cobra.CompletionFunc {
	return c.asks(func(ctx context.Context) ([]string, error) {
		p, err := c.open(ctx)
		if err != nil {
			return nil, err
		}
		defer p.close()
		s, err := p.js.Stream(ctx, p.name)
		if err != nil {
			return nil, err
		}
		info, err := s.Info(ctx, jetstream.WithSubjectFilter("dlq.*.*.*"))
		if err != nil {
			return nil, err
		}
		var names []string
		for subject := range info.State.Subjects {
			if t := strings.Split(subject, "."); len(t) > 3 {
				names = append(names, printable(part(t[1], t[2])))
			}
		}
		slices.Sort(names)
		return slices.Compact(names), nil
	})
}

// completeNumbers completes numbers of letters that nobody has replayed, each with a word on what it is. most is how many arguments there may
// be; 0 is any number.
func (c *command) completeNumbers(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.asks(func(ctx context.Context) (words []string, err error) {
			p, err := c.open(ctx)
			if err != nil {
				return nil, err
			}
			defer p.close()
			for l, err := range p.List(ctx, deadletter.Filter{State: deadletter.StateOpen}) {
				if err != nil || len(words) == completeNumbers {
					return words, err
				}
				if n := strconv.FormatUint(l.Sequence, 10); !slices.Contains(args, n) {
					words = append(words, fmt.Sprintf("%s\t%s, %s, %s", n, printable(l.Consumer), printable(l.Subject), printable(l.Reason)))
				}
			}
			return words, nil
		})(cmd, args, typed)
	}
}
