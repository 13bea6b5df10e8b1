package main

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/spf13/cobra"
)

// tally counts the letters of one consumer with one reason. It is also one line of the output of count --json.
type tally struct {
	Stream    string    `json:"stream"`
	Consumer  string    `json:"consumer"`
	Reason    string    `json:"reason"`
	Open      int       `json:"open"`
	Replaying int       `json:"replaying"`
	Handled   int       `json:"handled"`
	Total     int       `json:"total"`
	Oldest    time.Time `json:"oldest"` // when the oldest letter was stored
	Newest    time.Time `json:"newest"`
}

func (c *command) count() *cobra.Command {
	var f filterFlags
	cmd := &cobra.Command{
		Use:     "count",
		Aliases: []string{"summary"},
		Short:   "Count dead letters by consumer and reason",
		Example: `  ackfloor dead-letters count --stream EVENTS
  ackfloor dead-letters count --since 24h --json`,
		Args:              noNumbers,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.filterFlags(cmd, &f)
	cmd.RunE = c.looks(&f, func(ctx context.Context, p *place, filter deadletter.Filter) error {
		tallies, err := count(ctx, p, filter, f.limit)
		if err != nil {
			return err
		}
		if c.json {
			for _, t := range tallies {
				if err := c.print(t); err != nil {
					return err
				}
			}
			return nil
		}
		if len(tallies) == 0 {
			c.say("no dead letters%s", suffixIf(f.any(), " that match"))
			return nil
		}
		c.showCount(p, tallies)
		return nil
	})
	return cmd
}

// count counts letters, the largest number first.
func count(ctx context.Context, p *place, filter deadletter.Filter, limit int) ([]*tally, error) {
	type key struct{ stream, consumer, reason string }
	all := map[key]*tally{}
	n := 0
	for l, err := range p.List(ctx, filter) {
		if err != nil {
			return nil, unavailable(err)
		}
		k := key{l.Stream, l.Consumer, l.Reason}
		t := all[k]
		if t == nil {
			t = &tally{Stream: l.Stream, Consumer: l.Consumer, Reason: l.Reason, Oldest: l.Stored.UTC()}
			all[k] = t
		}
		t.Newest = l.Stored.UTC()
		t.Total++
		switch l.State {
		case deadletter.StateHandled:
			t.Handled++
		case deadletter.StateReplaying:
			t.Replaying++
		default:
			t.Open++
		}
		if n++; n == limit {
			break
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *tally) int {
		return cmp.Or(-cmp.Compare(a.Total, b.Total), cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Reason, b.Reason))
	}), nil
}

func (c *command) showCount(p *place, tallies []*tally) {
	columns := []column{
		{head: "CONSUMER", min: 8}, {head: "REASON", min: 9},
		{head: "OPEN", right: true}, {head: "REPLAYING", right: true}, {head: "HANDLED", right: true}, {head: "TOTAL", right: true},
		{head: "OLDEST", drop: 1}, {head: "NEWEST", drop: 2},
	}
	g := &grid{screen: c.screen, columns: columns, look: func(col int, cell string) lipgloss.Style {
		if columns[col].head == "REASON" {
			return reasonLook(cell)
		}
		return plain
	}}
	total := tally{Oldest: tallies[0].Oldest, Newest: tallies[0].Newest}
	add := func(consumer, reason string, t tally) {
		g.add(printable(consumer), printable(reason), strconv.Itoa(t.Open), strconv.Itoa(t.Replaying), strconv.Itoa(t.Handled), strconv.Itoa(t.Total),
			t.Oldest.Local().Format(time.DateTime), t.Newest.Local().Format(time.DateTime))
	}
	for _, t := range tallies {
		add(p.whose(t.Stream, t.Consumer), t.Reason, *t)
		total.Open += t.Open
		total.Replaying += t.Replaying
		total.Handled += t.Handled
		total.Total += t.Total
		if t.Oldest.Before(total.Oldest) {
			total.Oldest = t.Oldest
		}
		if t.Newest.After(total.Newest) {
			total.Newest = t.Newest
		}
	}
	if len(tallies) > 1 {
		add("all", "", total)
	}
	g.flush()
}
