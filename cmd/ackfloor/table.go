package main

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
)

// column says how a column of a grid may be narrowed. A cell is one line of printable text.
type column struct {
	head  string
	right bool // numbers
	min   int  // it is not made narrower than this; 0 means never narrower than its cells
	usual int  // what is taken for its width where rows come one by one
	drop  int  // where the width is too small for all of them, columns are left out in this order, from 1; 0 stays
}

// grid is a table that is written in blocks, so that a list of any length takes little memory. On a terminal its lines are as wide as that
// at the most; elsewhere nothing is shortened.
type grid struct {
	screen  *screen
	columns []column
	look    func(col int, cell string) lipgloss.Style // of a cell; may be nil
	live    bool                                      // rows come one by one, each written at once

	widths []int // of the blocks so far; a column never becomes narrower
	rows   [][]string
	headed bool
}

const (
	blockRows = 500
	gap       = 2 // between columns
)

func (g *grid) add(cells ...string) {
	g.rows = append(g.rows, cells)
	if len(g.rows) == blockRows {
		g.flush()
	}
}

// flush writes what has been added. With nothing added ever it writes nothing, no heading either.
func (g *grid) flush() {
	if len(g.rows) == 0 {
		return
	}
	if g.widths == nil {
		g.widths = make([]int, len(g.columns))
	}
	wide := slices.Clone(g.widths)
	for i, c := range g.columns {
		wide[i] = max(wide[i], len(c.head))
		if g.live {
			wide[i] = max(wide[i], c.usual)
		}
		for _, r := range g.rows {
			wide[i] = max(wide[i], lipgloss.Width(r[i]))
		}
	}
	if g.screen.outWidth == 0 {
		g.widths = wide
	} else if !g.headed { // on a terminal the first block decides: the lines below each other matter more than the last letter
		g.widths = fit(g.columns, wide, g.screen.outWidth)
	}
	for line := range strings.Lines(g.render() + "\n") {
		fmt.Fprintln(g.screen.out, strings.TrimRight(line, " \n"))
	}
	g.rows, g.headed = g.rows[:0], true
}

// render draws the rows with the columns that have a width.
func (g *grid) render() string {
	var shown []int
	total := 0
	for i, w := range g.widths {
		if w > 0 {
			shown = append(shown, i)
			total += w + gap
		}
	}
	total -= gap // none behind the last
	pick := func(cells []string) []string {
		out := make([]string, len(shown))
		for i, c := range shown {
			out[i] = cells[c]
		}
		return out
	}
	t := table.New().Border(lipgloss.Border{}).BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		BorderHeader(false).BorderColumn(false).Wrap(false).Width(total)
	if !g.headed {
		heads := make([]string, len(g.columns))
		for i, c := range g.columns {
			heads[i] = c.head
		}
		t.Headers(pick(heads)...)
	}
	for _, r := range g.rows {
		t.Row(pick(r)...)
	}
	return t.StyleFunc(func(row, col int) lipgloss.Style {
		c := shown[col]
		style := plain
		switch {
		case row == table.HeaderRow:
			style = g.screen.look(bold)
		case g.look != nil:
			style = g.screen.look(g.look(c, g.rows[row][c]))
		}
		width := g.widths[c]
		if g.columns[c].right {
			style = style.AlignHorizontal(lipgloss.Right)
		}
		if col < len(shown)-1 {
			style = style.PaddingRight(gap)
			width += gap
		}
		return style.Width(width)
	}).Render()
}

// fit makes columns that want the widths given fit into a line: columns are left out, in their order, until the rest fits at its
// narrowest; then the widest that may is narrowed, until all fits. A column that is left out has the width 0.
func fit(columns []column, wide []int, line int) []int {
	widths := slices.Clone(wide)
	least := func(i int) int {
		if columns[i].min == 0 {
			return wide[i]
		}
		return min(wide[i], columns[i].min)
	}
	need := func(of func(i int) int) int {
		total := -gap
		for i, w := range widths {
			if w > 0 {
				total += of(i) + gap
			}
		}
		return total
	}
	for next := 1; need(least) > line; next++ {
		i := slices.IndexFunc(columns, func(c column) bool { return c.drop == next })
		if i < 0 {
			break
		}
		widths[i] = 0
	}
	now := func(i int) int { return widths[i] }
	for need(now) > line {
		widest := -1
		for i, w := range widths {
			if w > least(i) && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break // narrower than anything makes sense in: the terminal breaks the lines
		}
		widths[widest]--
	}
	return widths
}
