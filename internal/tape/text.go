package tape

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// TextOptions say how Text draws.
type TextOptions struct {
	Width int  // columns, at least 20; 0 is 80
	Color bool // ANSI colours
	ASCII bool // for a terminal without UTF-8: nothing but ASCII is written
}

// Text draws the tape for a terminal: what the stream holds, a row of cells for each consumer, and the numbers. No line is wider than o.Width columns. A small stream has a
// cell for each sequence; in a larger one a cell stands for several, and shows what is most urgent of them: open before ahead before done. Names are printable, whatever
// they hold. The error is that of w.
func (t *Tape) Text(w io.Writer, o TextOptions) error {
	if o.Width == 0 {
		o.Width = 80
	}
	d := drawing{TextOptions: o, tape: t}
	d.Width = max(d.Width, 20)
	d.head()
	d.picture()
	d.numbers()
	d.notes()
	_, err := w.Write(d.out.Bytes())
	return err
}

// drawing is a text that is being made.
type drawing struct {
	TextOptions
	tape *Tape
	out  bytes.Buffer
}

// Colours of the 16 that every terminal has.
const (
	boldly = "1"
	green  = "32"
	yellow = "33"
	red    = "31"
	grey   = "90"
)

// colour wraps a text that is not empty in a colour.
func (d *drawing) colour(code, s string) string {
	if !d.Color || s == "" || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// line ends a line.
func (d *drawing) line(s string) {
	d.out.WriteString(strings.TrimRight(s, " "))
	d.out.WriteByte('\n')
}

// words writes a text, broken into lines between words.
func (d *drawing) words(code, text string) {
	d.parts(code, " ", strings.Fields(text))
}

// parts writes parts, broken into lines between them, and inside of one that is longer than a line.
func (d *drawing) parts(code, between string, parts []string) {
	for _, line := range wrap(parts, between, d.Width) {
		d.line(d.colour(code, line))
	}
}

// head says what the stream holds.
func (d *drawing) head() {
	t := d.tape
	text := "Stream " + printable(t.Stream, d.ASCII)
	switch {
	case t.Last == 0 && t.Partial != "":
		text += ": its ends are not known"
	case t.Last == 0:
		text += ": no message was ever stored"
	case t.Messages == 0:
		text += fmt.Sprintf(": empty, the last sequence was %d", t.Last)
	default:
		text += fmt.Sprintf(": %s, %s, sequences %d to %d", count(t.Messages, "message"), size(t.Bytes), t.First, t.Last)
		if gone := t.Last - t.First + 1 - t.Messages; gone > 0 && t.Last-t.First+1 > t.Messages {
			text += fmt.Sprintf(" with %d of them deleted", gone)
		}
	}
	if t.Last > 0 && !t.LastTime.IsZero() {
		text += ", the last stored " + t.LastTime.Local().Format("2006-01-02 15:04:05")
	}
	d.words(boldly, text)
}

// The marks as cells.
var cells = map[Mark]struct{ glyph, ascii, code, says string }{
	MarkDone:  {"█", "#", green, "settled"},
	MarkOpen:  {"▒", "o", yellow, "delivered: may be outstanding"},
	MarkAhead: {"░", ".", grey, "not delivered yet"},
	markGone:  {"×", "x", grey, "deleted"},
}

// markGone is of a sequence that is not stored.
const markGone Mark = "gone"

func (d *drawing) glyph(m Mark) string {
	if d.ASCII {
		return cells[m].ascii
	}
	return cells[m].glyph
}

// picture draws the cells: a line of sequences, then a row for each consumer of which there are numbers.
func (d *drawing) picture() {
	var shown []Cursor
	for _, c := range d.tape.Cursors {
		if c.Error == "" || c.Delivered > 0 {
			shown = append(shown, c)
		}
	}
	first, last := d.span(shown)
	if len(shown) == 0 || last < first || last == 0 {
		return
	}
	name := 0
	for _, c := range shown {
		name = max(name, width(printable(c.Consumer, d.ASCII)))
	}
	name = min(name, d.Width/3)
	s := scaleOf(first, last, d.Width-name-gap)
	d.line("")
	d.line(strings.Repeat(" ", name+gap) + s.axis())
	used := map[Mark]bool{}
	for _, c := range shown {
		d.line(pad(d.cut(printable(c.Consumer, d.ASCII), name), name+gap) + d.row(c, s, used))
	}
	d.legend(s, used)
}

// span tells which sequences are drawn: those that the stream holds, or where that is not known those that the cursors speak of.
func (d *drawing) span(shown []Cursor) (first, last uint64) {
	if t := d.tape; t.Last > 0 || t.Partial == "" {
		return t.First, t.Last
	}
	for i, c := range shown {
		ahead := c.Delivered
		if len(c.Filter) == 0 {
			ahead += c.Unprocessed
		}
		last = max(last, ahead)
		if i == 0 || c.AckFloor < first {
			first = c.AckFloor
		}
	}
	return max(1, first), last
}

// row draws the cells of a consumer. Neighbours of one mark share their colour.
func (d *drawing) row(c Cursor, s scale, used map[Mark]bool) string {
	var out strings.Builder
	run, of := "", Mark("")
	for i := range s.cells {
		from, to := s.sequences(i)
		m := worst(c, from, to)
		if from == to && d.tape.Gone(from) {
			m = markGone
		}
		used[m] = true
		if m != of {
			out.WriteString(d.colour(cells[of].code, run))
			run, of = "", m
		}
		run += pad(d.glyph(m), s.wide)
	}
	out.WriteString(d.colour(cells[of].code, strings.TrimRight(run, " ")))
	return out.String()
}

// worst is the most urgent mark of the sequences from one to another: one message that is open, or not delivered, is seen among a million.
func worst(c Cursor, from, to uint64) Mark {
	if c.Outstanding > 0 && from <= c.Delivered && to > c.AckFloor {
		return MarkOpen
	}
	return c.Mark(to)
}

// legend says what the cells mean that were drawn.
func (d *drawing) legend(s scale, used map[Mark]bool) {
	var parts []string
	for _, m := range []Mark{MarkDone, MarkOpen, MarkAhead, markGone} {
		if used[m] {
			parts = append(parts, d.glyph(m)+" "+cells[m].says)
		}
	}
	if s.cells > 0 && uint64(s.cells) < s.count {
		each := (s.count + uint64(s.cells) - 1) / uint64(s.cells)
		parts = append(parts, fmt.Sprintf("one cell is up to %d sequences", each))
	}
	d.line("")
	d.parts(grey, "   ", parts)
}

// notes say what is not known.
func (d *drawing) notes() {
	t := d.tape
	var notes []string
	if t.Partial != "" {
		notes = append(notes, printable(t.Partial, d.ASCII))
	}
	for _, c := range t.Cursors {
		if c.Error != "" {
			notes = append(notes, printable(c.Consumer+": "+c.Error, d.ASCII))
		}
	}
	if len(notes) > 0 {
		d.line("")
	}
	for _, n := range notes {
		d.words(red, n)
	}
}

// count is a number of things.
func count(n uint64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// size is a number of bytes with a unit.
func size(n uint64) string {
	if n < 1024 {
		return count(n, "byte")
	}
	f, units := float64(n), []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	f /= 1024
	for ; f >= 1023.95 && len(units) > 1; f /= 1024 {
		units = slices.Delete(units, 0, 1)
	}
	return fmt.Sprintf("%.1f %s", f, units[0])
}
