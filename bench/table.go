package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
)

// table writes what was measured, and whether it is what was aimed at. It keeps the same as data, for -json.
type table struct {
	out    io.Writer
	tabs   *tabwriter.Writer
	missed int
	faults []string
	kept   []*figures.Table
	save   func() // called behind each table; nil for nothing
}

func newTable(out io.Writer) *table {
	return &table{out: out, tabs: tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)}
}

func (t *table) title(format string, args ...any) {
	fmt.Fprintf(t.out, "\n"+format+"\n\n", args...)
	t.kept = append(t.kept, &figures.Table{Title: strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")})
}

// last is the table that is being written.
func (t *table) last() *figures.Table {
	if len(t.kept) == 0 {
		t.kept = append(t.kept, &figures.Table{})
	}
	return t.kept[len(t.kept)-1]
}

// row writes the cells in columns, numbers to the right. The first row of a table is its head.
func (t *table) row(cells ...string) {
	fmt.Fprintln(t.tabs, strings.Join(cells, "\t")+"\t")
	if kept := t.last(); kept.Header == nil {
		kept.Header = cells
	} else {
		kept.Rows = append(kept.Rows, cells)
	}
}

// note writes a line behind the table.
func (t *table) note(format string, args ...any) {
	fmt.Fprintf(t.out, format+"\n", args...)
	t.last().Notes = append(t.last().Notes, fmt.Sprintf(format, args...))
}

// chart keeps what is to be drawn of the table, where there is something to draw.
func (t *table) chart(c figures.Chart) {
	c.Lines = slices.DeleteFunc(c.Lines, func(l figures.Line) bool { return len(l.X) == 0 })
	c.Bars = slices.DeleteFunc(c.Bars, func(b figures.Bar) bool { return math.IsNaN(b.Y) || math.IsInf(b.Y, 0) })
	if len(c.Lines)+len(c.Bars) > 0 {
		t.last().Charts = append(t.last().Charts, c)
	}
}

func (t *table) flush() {
	_ = t.tabs.Flush()
	fmt.Fprintln(t.out)
	if t.save != nil {
		t.save()
	}
}

// fault is what must not be: the run fails, behind its tables.
func (t *table) fault(format string, args ...any) {
	t.faults = append(t.faults, fmt.Sprintf(format, args...))
}

// err is what must not have been, nil if nothing was.
func (t *table) err() error {
	if len(t.faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(t.faults, "\n"))
}

type bound string

const (
	atLeast bound = ">="
	atMost  bound = "<="
	below   bound = "<"
)

// aim writes one line for a figure that was aimed at; none where a contestant did not run.
func (t *table) aim(what string, got float64, b bound, want float64) {
	if math.IsNaN(got) {
		return
	}
	met := b == atLeast && got >= want || b == atMost && got <= want || b == below && got < want
	word := "met"
	if !met {
		word = "MISSED"
		t.missed++
	}
	fmt.Fprintf(t.out, "%-6s  %-58s %7.3f  (aim %s %g)\n", word, what, got, b, want)
	if !math.IsInf(got, 0) {
		t.last().Aims = append(t.last().Aims, figures.Aim{What: what, Got: got, Bound: string(b), Want: want, Met: met})
	}
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func medianOf(rs []run, figure func(run) float64) float64 {
	var v []float64
	for _, r := range rs {
		v = append(v, figure(r))
	}
	return median(v)
}

// ratio is the median of the rounds' ratios: what disturbs a whole round falls out. NaN where one of the two did not run.
func ratio(rs, base []run, figure func(run) float64) float64 {
	var v []float64
	for i := range min(len(rs), len(base)) {
		v = append(v, figure(rs[i])/figure(base[i]))
	}
	return median(v)
}

func times(rs, base []run, figure func(run) float64) string {
	r := ratio(rs, base, figure)
	if math.IsNaN(r) {
		return "-"
	}
	return fmt.Sprintf("%.2f", r)
}

func mb(bytes uint64) float64 { return float64(bytes) / (1 << 20) }
