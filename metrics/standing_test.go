package metrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/worker"
)

// What is shown of the looks of a Runner, look by look: the seconds at which it looked and somebody scraped, and what it saw.
func TestLag(t *testing.T) {
	type step struct {
		seen, scraped int // seconds
		cursor        worker.Cursor
		want          string
	}
	zero := worker.Cursor{}
	at := func(floor uint64, outstanding int) worker.Cursor {
		return worker.Cursor{Delivered: floor + uint64(outstanding), AckFloor: floor, AckPending: outstanding}
	}
	const none = "nothing"
	show := func(floor, outstanding, floorAge, lookAge int) string {
		return fmt.Sprintf("floor %d, %d outstanding, for %ds, seen %ds ago", floor, outstanding, floorAge, lookAge)
	}
	for name, steps := range map[string][]step{
		"no look yet":                {{0, 1, zero, none}},
		"the floor moves":            {{1, 1, at(5, 2), show(5, 2, 0, 0)}, {6, 7, at(9, 2), show(9, 2, 1, 1)}},
		"the floor stands":           {{1, 1, at(5, 2), show(5, 2, 0, 0)}, {6, 7, at(5, 2), show(5, 2, 6, 1)}, {6, 17, at(5, 2), show(5, 2, 16, 11)}},
		"nothing is outstanding":     {{1, 1, at(5, 0), show(5, 0, 0, 0)}, {100, 101, at(5, 0), show(5, 0, 0, 1)}},
		"work after a long idleness": {{1, 1, at(5, 0), show(5, 0, 0, 0)}, {100, 100, at(5, 0), show(5, 0, 0, 0)}, {105, 106, at(5, 3), show(5, 3, 6, 1)}},
		"zeros of a shutdown":        {{1, 1, at(5, 2), show(5, 2, 0, 0)}, {6, 6, zero, show(5, 2, 5, 5)}, {6, 9, zero, show(5, 2, 8, 8)}, {11, 11, at(6, 2), show(6, 2, 0, 0)}},
		"zeros twice, not in a row": {{1, 1, at(5, 2), show(5, 2, 0, 0)}, {6, 6, zero, show(5, 2, 5, 5)}, {11, 11, at(5, 2), show(5, 2, 10, 0)},
			{16, 16, zero, show(5, 2, 15, 5)}},
		"zeros that are true":    {{1, 1, at(5, 2), show(5, 2, 0, 0)}, {6, 6, zero, show(5, 2, 5, 5)}, {11, 11, zero, show(0, 0, 0, 0)}, {16, 18, zero, show(0, 0, 0, 2)}},
		"a new consumer":         {{1, 1, zero, none}, {1, 4, zero, none}, {6, 7, zero, show(0, 0, 0, 1)}, {11, 11, zero, show(0, 0, 0, 0)}},
		"a floor that goes back": {{1, 1, at(50, 2), show(50, 2, 0, 0)}, {6, 6, at(3, 2), show(3, 2, 0, 0)}},
	} {
		var l lag
		start := time.Now()
		for i, s := range steps {
			c := s.cursor
			if s.seen > 0 {
				c.Seen = start.Add(time.Duration(s.seen) * time.Second)
			}
			got := none
			if st := l.see(c, start.Add(time.Duration(s.scraped)*time.Second)); st.known {
				got = show(int(st.AckFloor), st.AckPending, int(st.floorAge.Seconds()), int(st.lookAge.Seconds()))
			}
			if got != s.want {
				t.Errorf("%s: step %d: %s; want %s", name, i+1, got, s.want)
			}
		}
	}
}

// A state lasts from the scrape that saw it first, and one that ended begins anew.
func TestSpan(t *testing.T) {
	var s span
	start := time.Now()
	for i, step := range []struct {
		at   int // seconds
		is   bool
		want int
	}{{0, false, 0}, {10, true, 0}, {15, true, 5}, {40, true, 30}, {50, false, 0}, {60, true, 0}, {61, true, 1}} {
		if got := s.lasts(step.is, start.Add(time.Duration(step.at)*time.Second)); got != time.Duration(step.want)*time.Second {
			t.Errorf("step %d: %v, want %d s", i+1, got, step.want)
		}
	}
}
