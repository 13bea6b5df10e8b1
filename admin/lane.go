package admin

import (
	"slices"
	"strconv"

	"github.com/ackfloor/ackfloor/internal/tape"
	"github.com/ackfloor/ackfloor/worker"
)

// lane is a consumer on the picture.
type lane struct {
	Name, Class, Note string
	Text, Bar         int
	Done, Open, Head  string // widths, and the place of the head
	Level             int    // how much of what is open is settled, from 0 to 4
	OpenAt            string
	Marks             []mark
}

type mark struct{ X, Width, Class string }

// colour is that of a consumer: by its place on the tape, so that it is the same in picture and table.
func colour(t *tape.Tape, consumer string) string {
	i := slices.IndexFunc(t.Cursors, func(c tape.Cursor) bool { return c.Consumer == consumer })
	return "c" + strconv.Itoa(max(i, 0)%palette)
}

func laneOf(c tape.Cursor, w window, held map[string][]worker.HeldItem) lane {
	l := lane{Name: plain(c.Consumer, 32)}
	items, own := held[c.Consumer]
	if own {
		l.Class = " own"
	}
	if c.Error != "" && c.Delivered == 0 {
		l.Note, l.Done, l.Open, l.OpenAt, l.Head = "not known", "0%", "0%", "0%", "0%"
		return l
	}
	floor, delivered := w.at(c.AckFloor), w.at(c.Delivered)
	l.Done, l.OpenAt, l.Open, l.Head = percent(floor), percent(floor), percent(max(0, delivered-floor)), percent(delivered)
	if c.Delivered > c.AckFloor {
		l.Level = int(4 * (1 - min(1, float64(c.Outstanding)/float64(c.Delivered-c.AckFloor))))
	}
	if c.Outstanding == 0 { // what lies between was settled, or is of other subjects
		l.Done, l.Open = percent(max(floor, delivered)), "0%"
		if c.Unprocessed == 0 { // and so is what lies ahead
			l.Done = percent(100)
		}
	}
	switch {
	case c.Paused:
		l.Note = "paused"
	case c.Outstanding > 0:
		l.Note = thousands(uint64(c.Outstanding)) + " outstanding, " + thousands(c.Unprocessed) + " unprocessed"
	case c.Unprocessed > 0:
		l.Note = thousands(c.Unprocessed) + " unprocessed"
	default:
		l.Note = "all processed"
	}
	l.Marks = marksOf(items, w)
	return l
}

// marksOf are the held messages on a lane. What shares a place on a large tape is one mark, of the kind that matters most.
func marksOf(items []worker.HeldItem, w window) []mark {
	if w.span() == 0 {
		return nil
	}
	places := min(w.span(), bins)
	kinds := make([]int, places)
	for _, h := range items {
		if h.Sequence > w.lo && h.Sequence <= w.hi {
			at := min(uint64(float64(h.Sequence-w.lo-1)/float64(w.span())*float64(places)), places-1)
			kinds[at] = max(kinds[at], kindOf(h))
		}
	}
	var out []mark
	for i, k := range kinds {
		if k > 0 {
			out = append(out, mark{X: percent(100 * float64(i) / float64(places)), Width: percent(100 / float64(places)), Class: markClasses[k]})
		}
	}
	return out
}

var markClasses = [...]string{"", "waiting", "running", "again"}

func kindOf(h worker.HeldItem) int {
	switch {
	case h.Attempt > 1:
		return 3
	case h.Running:
		return 2
	}
	return 1
}
