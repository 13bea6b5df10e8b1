package main

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/spf13/cobra"
)

func (c *command) list() *cobra.Command {
	var f filterFlags
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List dead letters, the oldest first",
		Long: `List dead letters, the oldest first. N is the number of the letter, which show, replay and rm take; SEQUENCE is that of the message in
its stream. On a terminal the columns are narrowed to its width, and some are left out where it is small; elsewhere nothing is.`,
		Example: `  ackfloor dead-letters list --stream EVENTS --state open --since 2h
  ackfloor dead-letters list --consumer orders --reason exhausted --subject 'events.order.*'
  ackfloor dead-letters list --json | jq -r 'select(.attempts > 5) | .sequence'`,
		Args:              noNumbers,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.filterFlags(cmd, &f)
	cmd.RunE = c.looks(&f, func(ctx context.Context, p *place, filter deadletter.Filter) error {
		table := c.letters(p)
		n, more := 0, false
		for l, err := range p.List(ctx, filter) {
			if err != nil {
				table.flush()
				return unavailable(err)
			}
			if n++; f.limit > 0 && n > f.limit {
				more = true
				break
			}
			if err := table.letter(ctx, l); err != nil {
				return err
			}
		}
		table.flush()
		if more {
			c.say("there are more: --limit %d ends the list", f.limit)
		}
		if n == 0 && !c.json {
			c.say("no dead letters%s", suffixIf(f.any(), " that match"))
		}
		return nil
	})
	return cmd
}

// letters is the output of list and watch.
type letters struct {
	*grid
	json  bool
	place *place
}

func (c *command) letters(p *place) letters {
	return letters{&grid{screen: c.screen, columns: letterColumns, look: letterLook}, c.json, p}
}

func (t letters) letter(ctx context.Context, l *deadletter.Letter) error {
	if t.json {
		if l.Incomplete() {
			whole, err := t.place.get(ctx, l.Sequence)
			switch {
			case whole != nil:
				l = whole
			case errors.Is(err, deadletter.ErrNotFound):
				return nil // removed meanwhile
			default:
				return err
			}
		}
		return t.screen.print(asJSON(l))
	}
	at := time.DateTime
	if t.screen.outWidth > 0 && t.screen.outWidth < 120 {
		at = "01-02 15:04:05"
	}
	t.add(strconv.FormatUint(l.Sequence, 10), l.Stored.Local().Format(at), printable(t.place.whose(l.Stream, l.Consumer)), printable(l.Subject),
		strconv.FormatUint(l.MessageSequence, 10), strconv.Itoa(l.Attempts), printable(l.Reason), string(l.State), printable(cause(l.Error)))
	return nil
}

// noise is what errors begin with that says where they are from, or of what message, which other columns do.
var noise = regexp.MustCompile(`^(?:(?:ackfloor|worker|deadletter|breaker|retry): |the payload of "[^"]*" \(\d+ bytes\) )+`)

// cause is an error from where it begins to say something: the column is the first to be narrowed.
func cause(text string) string {
	if rest := noise.ReplaceAllString(text, ""); rest != "" {
		return rest
	}
	return text
}

// noNumbers refuses arguments, and tells what takes the number of a letter.
func noNumbers(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		if _, err := number(args[0]); err == nil {
			return usagef("%s takes no numbers: show %s", cmd.Name(), args[0])
		}
	}
	return cobra.NoArgs(cmd, args)
}

// whose names the consumer; with its stream where the dead-letter stream's name does not say that.
func (p *place) whose(stream, consumer string) string {
	if stream+suffix == p.name {
		return consumer
	}
	return stream + "/" + consumer
}

// Columns that letterLook knows; letterColumns has them all.
var (
	reasonColumn = slices.IndexFunc(letterColumns, func(c column) bool { return c.head == "REASON" })
	stateColumn  = slices.IndexFunc(letterColumns, func(c column) bool { return c.head == "STATE" })
)

func letterLook(col int, cell string) lipgloss.Style {
	switch col {
	case reasonColumn:
		return reasonLook(cell)
	case stateColumn:
		return stateLook(cell)
	}
	return plain
}

func reasonLook(reason string) lipgloss.Style {
	if reason == deadletter.ReasonCrash {
		return red
	}
	return yellow
}

func stateLook(state string) lipgloss.Style {
	switch deadletter.State(state) {
	case deadletter.StateHandled:
		return green
	case deadletter.StateReplaying:
		return cyan
	}
	return plain
}

func suffixIf(ok bool, s string) string {
	if ok {
		return s
	}
	return ""
}
