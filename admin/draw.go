package admin

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/ackfloor/ackfloor/internal/tape"
	"github.com/ackfloor/ackfloor/worker"
)

const (
	cellsMost = 64  // messages that are drawn one by one
	lanesMost = 12  // consumers that are drawn; the table has more
	bins      = 200 // places for marks on a tape that is drawn to scale

	cellNumbers = 16 // cells that have their number in them

	// In pixels. The strip itself, and a lane's bar, are 40 and 14 high: parts.html has that.
	lanesBegin = 54
	ticksTake  = 16
	laneHeight = 46
	laneBar    = 20 // where the bar begins in a lane

	palette = 6 // colours of consumers
)

// drawing is a tape as an SVG. Widths are in percent, so that text stays as it is on any screen; heights in pixels.
type drawing struct {
	Height  int
	Cells   []cell
	Ticks   []tick
	Lanes   []lane
	Empty   string // instead of cells: why there are none
	Settled string // how much of the strip every consumer is done with, where it has no cells
	Torn    bool   // there are earlier messages than the picture shows
	Window  string // which part of the stream that is, where it is not all
	Label   string // the picture in words
	More    int    // consumers that are not drawn
}

type cell struct{ X, Width, Mid, Number, Class string }

type tick struct{ X, Anchor, Text, Class string }

// window is what of the stream is drawn: the sequences after lo, up to hi.
type window struct{ lo, hi uint64 }

func (w window) span() uint64 { return w.hi - w.lo }

// at is the right edge of a sequence's cell, in percent.
func (w window) at(sequence uint64) float64 {
	if w.span() == 0 {
		return 0
	}
	return 100 * float64(min(max(sequence, w.lo), w.hi)-w.lo) / float64(w.span())
}

// windowOf shows a small stream whole, and of a larger one the end in which the cursors stand: a power of two, so that the picture holds still
// while they move.
func windowOf(t *tape.Tape) window {
	if t.Messages == 0 || t.Last < t.First {
		return window{t.Last, t.Last}
	}
	all := window{max(t.First, 1) - 1, t.Last}
	if all.span() <= cellsMost {
		return all
	}
	behind := t.Last - min(lowestFloor(t), t.Last)
	if behind > all.span()/2 {
		return all
	}
	size := uint64(1) << bits.Len64(max(behind+behind/4, cellsMost)-1)
	if size >= all.span()/4*3 {
		return all
	}
	return window{t.Last - size, t.Last}
}

// lowestFloor is the ack floor of the last consumer.
func lowestFloor(t *tape.Tape) uint64 {
	floor := t.Last
	for _, c := range t.Cursors {
		if c.Error == "" && (c.Outstanding > 0 || c.Unprocessed > 0) {
			floor = min(floor, c.AckFloor)
		}
	}
	return floor
}

func percent(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) + "%" }

// draw makes the picture of a tape. held are the messages that Runners of this process hold, by consumer.
func draw(t *tape.Tape, held map[string][]worker.HeldItem) drawing {
	w := windowOf(t)
	d := drawing{Torn: w.lo+1 > max(t.First, 1), Label: inWords(t)}
	switch {
	case t.Last == 0:
		d.Empty = "No message yet"
	case w.span() == 0:
		d.Empty = "No messages stored; the last one was " + thousands(t.Last)
	case w.span() <= cellsMost:
		d.Cells = cellsOf(t, w)
	}
	if d.Torn {
		d.Window = fmt.Sprintf("the last %s of %s", thousands(w.span()), thousands(t.Last-max(t.First, 1)+1))
	}
	d.Ticks = ticksOf(w, len(d.Cells) > 0 && len(d.Cells) <= cellNumbers)
	cursors := slices.Clone(t.Cursors)
	if len(cursors) > lanesMost { // the own ones are drawn whatever there is beside
		slices.SortStableFunc(cursors, func(a, b tape.Cursor) int { return rank(held, a) - rank(held, b) })
		d.More = len(cursors) - lanesMost
		cursors = cursors[:lanesMost]
	}
	top := lanesBegin
	if len(d.Ticks) > 0 {
		top += ticksTake
	}
	for i, c := range cursors {
		l := laneOf(c, w, held)
		l.Class = colour(t, c.Consumer) + l.Class
		l.Text, l.Bar = top+laneHeight*i+13, top+laneHeight*i+laneBar
		d.Lanes = append(d.Lanes, l)
	}
	d.Height = top + laneHeight*len(d.Lanes)
	return d
}

func rank(held map[string][]worker.HeldItem, c tape.Cursor) int {
	if _, own := held[c.Consumer]; own {
		return 0
	}
	return 1
}

func cellsOf(t *tape.Tape, w window) []cell {
	var out []cell
	wide := 100 / float64(w.span())
	for i := range w.span() { // not up to w.hi: that may be the largest number there is
		seq := w.lo + 1 + i
		c := cell{X: percent(w.at(seq - 1)), Width: percent(wide), Mid: percent(w.at(seq-1) + wide/2), Class: "cell"}
		if w.span() <= cellNumbers {
			c.Number = strconv.FormatUint(seq, 10)
		}
		if t.Gone(seq) {
			c.Class, c.Number = "cell gone", ""
		}
		out = append(out, c)
	}
	return out
}

// ticksOf are the numbers below the strip; where cells have numbers there is no need.
func ticksOf(w window, numbered bool) []tick {
	if numbered || w.span() == 0 {
		return nil
	}
	out := []tick{{X: "0%", Anchor: "start", Text: thousands(w.lo + 1)}}
	if w.span() >= 8 {
		for i := uint64(1); i < 4; i++ {
			at := w.lo + w.span()/4*i
			out = append(out, tick{X: percent(w.at(at)), Anchor: "middle", Text: thousands(at), Class: "between"})
		}
	}
	return append(out, tick{X: "100%", Anchor: "end", Text: thousands(w.hi)})
}

// inWords says what the picture shows.
func inWords(t *tape.Tape) string {
	var b strings.Builder
	switch {
	case t.Last == 0:
		fmt.Fprintf(&b, "Stream %s has no message yet.", plain(t.Stream, longName))
	case t.Messages == 0:
		fmt.Fprintf(&b, "Stream %s stores no message; the last one was %d.", plain(t.Stream, longName), t.Last)
	default:
		fmt.Fprintf(&b, "Stream %s, messages %d to %d.", plain(t.Stream, longName), t.First, t.Last)
	}
	for i, c := range t.Cursors {
		if i == lanesMost {
			fmt.Fprintf(&b, " And %d consumers more.", len(t.Cursors)-i)
			break
		}
		if c.Error != "" && c.Delivered == 0 {
			fmt.Fprintf(&b, " %s: not known.", plain(c.Consumer, 32))
			continue
		}
		fmt.Fprintf(&b, " %s: acknowledgment floor %d, last delivered %d, %d outstanding, %d unprocessed.", plain(c.Consumer, 32), c.AckFloor, c.Delivered, c.Outstanding, c.Unprocessed)
	}
	return b.String()
}

func thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
