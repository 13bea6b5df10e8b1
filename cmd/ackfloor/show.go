package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/spf13/cobra"
)

func (c *command) show() *cobra.Command {
	raw := false
	cmd := &cobra.Command{
		Use:   "show N",
		Short: "Show one dead letter: what is known of it, its headers, its payload",
		Long: `Show the dead letter of number N: what is known of it, its headers, its payload. JSON is indented, other text printed as it is, anything else
as a hex dump. With --raw nothing but the payload is written, byte for byte; to a terminal, too.`,
		Example: `  ackfloor dead-letters show 17
  ackfloor dead-letters show 17 --raw > payload`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeNumbers(1),
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "write the payload's bytes and nothing else")
	cmd.RunE = c.runs(func(ctx context.Context, args []string) error {
		if raw && c.json {
			return usagef("--raw and --json exclude each other")
		}
		n, err := number(args[0])
		if err != nil {
			return err
		}
		p, err := c.open(ctx)
		if err != nil {
			return err
		}
		defer p.close()
		l, err := p.get(ctx, n) // an incomplete one comes with its error, and is shown as far as it is there
		switch {
		case errors.Is(err, deadletter.ErrNotFound):
			return p.missing(ctx, n)
		case l == nil:
			return err
		case raw:
			_, e := c.out.Write(l.Data)
			return errors.Join(err, e)
		case c.json:
			return errors.Join(err, c.print(asJSON(l)))
		}
		c.describe(p, l)
		return err
	})
	return cmd
}

// number reads the number of a letter.
func number(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 {
		return 0, usagef("%q is no number of a dead letter: it is a whole number from 1, the first column of list", s)
	}
	return n, nil
}

// get fetches one letter. With deadletter.ErrIncomplete it returns what there is.
func (p *place) get(ctx context.Context, n uint64) (*deadletter.Letter, error) {
	limited, cancel := p.within(ctx)
	defer cancel()
	l, err := p.Get(limited, n)
	if err != nil {
		err = fmt.Errorf("letter %d: %w", n, unavailable(err))
	}
	return l, err
}

// successors are the letters of replays that failed, by the letter whose place they took. They come without headers and payloads.
func (p *place) successors(ctx context.Context) (map[uint64]*deadletter.Letter, error) {
	out := map[uint64]*deadletter.Letter{}
	for l, err := range p.List(ctx, deadletter.Filter{}) {
		if err != nil {
			return nil, unavailable(err)
		}
		if l.ReplayOf > 0 {
			l.Data, l.Header = nil, nil
			out[l.ReplayOf] = l
		}
	}
	return out, nil
}

// missing says that there is no such letter, and which one took its place if its replay failed.
func (p *place) missing(ctx context.Context, n uint64) error {
	err := fmt.Errorf("there is no letter %d in %s", n, p.name)
	if next, e := p.successors(ctx); e == nil && next[n] != nil {
		err = fmt.Errorf("there is no letter %d in %s any more: its replay failed, and letter %d took its place", n, p.name, next[n].Sequence)
	}
	return &coded{exitNotFound, err}
}

// describe shows a letter to a person.
func (c *command) describe(p *place, l *deadletter.Letter) {
	title := func(format string, args ...any) {
		fmt.Fprintln(c.out, c.look(bold).Render(fmt.Sprintf(format, args...)))
	}
	row := func(name, format string, args ...any) {
		fmt.Fprintf(c.out, "  %-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	title("Dead letter %d of %s", l.Sequence, p.name)
	row("State", "%s", c.look(stateLook(string(l.State))).Render(string(l.State)))
	row("Stored", "%s", when(l.Stored))
	row("Consumer", "%s", printable(l.Consumer))
	row("Message", "%s sequence %d", printable(l.Stream), l.MessageSequence)
	row("Subject", "%s", printable(or(l.Subject, "unknown: it was not written as a letter, and can't be replayed")))
	row("Published", "%s", when(l.Published))
	row("Reason", "%s", c.look(reasonLook(l.Reason)).Render(printable(l.Reason)))
	row("Error", "%s", printable(l.Error))
	row("Attempts", "%d, in %d %s", l.Attempts, l.Deliveries, or(suffixIf(l.Deliveries == 1, "delivery"), "deliveries"))
	row("Failed", "first %s", when(l.FirstFailed))
	row("", "last  %s", when(l.LastFailed))
	row("Worker", "on %s, version %s", printable(or(l.Host, "an unknown host")), printable(or(l.Version, "unknown")))
	if l.Replays > 0 || l.ReplayOf > 0 {
		row("Replays", "%d before this failure; it is the replay of letter %d that failed", l.Replays, l.ReplayOf)
	}
	title("\nHeaders%s", suffixIf(len(l.Header) == 0, ": none"))
	for _, name := range slices.Sorted(maps.Keys(l.Header)) {
		for _, value := range l.Header[name] {
			fmt.Fprintf(c.out, "  %s: %s\n", printable(name), printable(value))
		}
	}
	kind, text := describePayload(l.Data)
	title("\nPayload: %s, %d bytes", kind, len(l.Data))
	fmt.Fprint(c.out, text)
}

// when shows a time, and how long ago that was.
func when(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return fmt.Sprintf("%s (%s ago)", t.Local().Format("2006-01-02 15:04:05.000 MST"), ago(time.Since(t)))
}

// ago rounds a duration to its two largest units.
func ago(d time.Duration) string {
	switch day := 24 * time.Hour; {
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < day:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%dh", d/day, int(d.Hours())%24)
	}
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
