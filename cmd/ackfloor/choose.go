package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/spf13/cobra"
)

// choice says which letters replay and rm are meant for, and what is to be asked before.
type choice struct {
	filterFlags
	numbers []string
	all     bool
	dryRun  bool
	yes     bool
}

// pick is a letter that was chosen.
type pick struct {
	sequence         uint64
	stream, consumer string
	subject          string
	message          uint64 // its sequence
	state            deadletter.State
}

func (c *command) choiceFlags(cmd *cobra.Command, ch *choice) {
	c.filterFlags(cmd, &ch.filterFlags)
	cmd.Flags().BoolVar(&ch.all, "all", false, "all letters, or all that match the filters")
	cmd.Flags().BoolVarP(&ch.dryRun, "dry-run", "n", false, "say what would be done, and do nothing")
	cmd.Flags().BoolVarP(&ch.yes, "yes", "y", false, "do not ask")
	cmd.ValidArgsFunction = c.completeNumbers(0)
}

// choose finds the letters. Numbers that name none are reported and left out; missing tells how many.
func (c *command) choose(ctx context.Context, p *place, ch choice, filter deadletter.Filter) (picks []pick, missing int, err error) {
	for _, s := range ch.numbers {
		n, _ := number(s) // check has seen to it
		l, err := p.get(ctx, n)
		switch {
		case errors.Is(err, deadletter.ErrNotFound):
			c.say("%s", shown(p.missing(ctx, n)))
			missing++
		case l == nil:
			return nil, 0, err
		default: // also an incomplete one: it can be removed
			picks = append(picks, picked(l))
		}
	}
	if len(ch.numbers) > 0 {
		return picks, missing, nil
	}
	for l, err := range p.List(ctx, filter) {
		if err != nil {
			return nil, 0, unavailable(err)
		}
		if picks = append(picks, picked(l)); len(picks) == ch.limit {
			break
		}
	}
	return picks, 0, nil
}

func picked(l *deadletter.Letter) pick {
	return pick{l.Sequence, l.Stream, l.Consumer, l.Subject, l.MessageSequence, l.State}
}

// check tells whether a choice makes sense before anything is asked of a server.
func (ch *choice) check(s *screen) (deadletter.Filter, error) {
	if len(ch.numbers) > 0 && (ch.all || ch.any()) {
		return deadletter.Filter{}, usagef("numbers of letters, and --all or filters, exclude each other")
	}
	if len(ch.numbers) == 0 && !ch.all && !ch.any() {
		return deadletter.Filter{}, usagef("which letters? Their numbers, --all, or filters")
	}
	seen := map[string]bool{}
	for _, n := range ch.numbers {
		if _, err := number(n); err != nil {
			return deadletter.Filter{}, err
		}
	}
	ch.numbers = slices.DeleteFunc(slices.Clone(ch.numbers), func(n string) bool {
		again := seen[n]
		seen[n] = true
		return again
	})
	if !ch.yes && !ch.dryRun && !s.asks {
		return deadletter.Filter{}, usagef("nobody is there to be asked: say --yes, or --dry-run")
	}
	return ch.filter(time.Now())
}

// describe says which letters are meant: how many of which consumer.
func describe(p *place, picks []pick) string {
	per := map[string]int{}
	for _, k := range picks {
		per[p.whose(k.stream, k.consumer)]++
	}
	var names []string
	for name := range per {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(per[b]-per[a], strings.Compare(a, b)) })
	var parts []string
	for i, name := range names {
		if i == 5 && len(names) > 6 {
			parts = append(parts, fmt.Sprintf("%d more consumers", len(names)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %d", printable(name), per[name]))
	}
	return fmt.Sprintf("%s (%s)", letterCount(len(picks)), strings.Join(parts, ", "))
}

func letterCount(n int) string {
	if n == 1 {
		return "1 letter"
	}
	return fmt.Sprintf("%d letters", n)
}

// ask puts a question. Only y and yes are a yes; an end of the input is none.
func (s *screen) ask(ctx context.Context, question string) (bool, error) {
	fmt.Fprintf(s.err, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // a read that nothing can end
		text, _ := bufio.NewReader(s.in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(text))
	}()
	select {
	case a := <-answer:
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		return a == "y" || a == "yes", nil
	case <-ctx.Done():
		s.say("")
		return false, context.Cause(ctx)
	}
}
