package main

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
)

func TestFit(t *testing.T) {
	t.Parallel()
	columns := []column{{head: "N"}, {head: "A", min: 5, drop: 1}, {head: "B", min: 5}, {head: "C", drop: 2}}
	for _, c := range []struct {
		line int
		want []int
	}{
		{100, []int{3, 10, 20, 6}},
		{45, []int{3, 10, 20, 6}},
		{44, []int{3, 10, 19, 6}},
		{30, []int{3, 7, 8, 6}},
		{25, []int{3, 5, 5, 6}},
		{24, []int{3, 0, 11, 6}},
		{18, []int{3, 0, 5, 6}},
		{17, []int{3, 0, 12, 0}},
		{10, []int{3, 0, 5, 0}},
		{4, []int{3, 0, 5, 0}},
	} {
		if got := fit(columns, []int{3, 10, 20, 6}, c.line); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%d columns: %v, want %v", c.line, got, c.want)
		}
	}
}

// A list of many blocks is one table: one heading, columns below each other, no line wider than the terminal; elsewhere every cell is whole.
func TestGridOfManyBlocks(t *testing.T) {
	t.Parallel()
	for _, width := range []int{0, 30} {
		var out bytes.Buffer
		g := &grid{screen: &screen{out: &out, outWidth: width}, columns: []column{{head: "N", right: true}, {head: "TEXT", min: 5}}}
		const rows = 2*blockRows + 7
		for i := range rows {
			g.add(fmt.Sprint(i+1), strings.Repeat("東京", i/40))
		}
		g.flush()
		g.flush()
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != rows+1 || strings.Count(out.String(), "TEXT") != 1 {
			t.Errorf("width %d: %d lines for %d rows", width, len(lines), rows)
		}
		for _, l := range lines {
			if w := lipgloss.Width(l); width > 0 && w > width {
				t.Errorf("%d columns: %q", w, l)
			}
		}
		if last := lines[len(lines)-1]; width == 0 && !strings.HasSuffix(last, strings.Repeat("東京", (rows-1)/40)) {
			t.Errorf("shortened: %q", last)
		}
	}
}

// Rows that come one by one find columns wide enough for what is usual.
func TestGridLive(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	g := &grid{screen: &screen{out: &out, outWidth: 40}, columns: []column{{head: "NAME", min: 4, usual: 8}, {head: "ERROR", min: 10, usual: 100}}, live: true}
	for _, name := range []string{"a", "abcdefgh", "abcdefghijkl"} {
		g.add(name, strings.Repeat("x", 50))
		g.flush()
	}
	want := "NAME      ERROR\n" +
		"a         " + strings.Repeat("x", 29) + "…\n" +
		"abcdefgh  " + strings.Repeat("x", 29) + "…\n" +
		"abcdefg…  " + strings.Repeat("x", 29) + "…\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestColours(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	g := &grid{screen: &screen{out: &out, outWidth: 40, colour: true}, columns: []column{{head: "STATE"}},
		look: func(_ int, cell string) lipgloss.Style { return stateLook(cell) }}
	g.add("handled")
	g.flush()
	if !strings.Contains(out.String(), "\x1b[32mhandled\x1b[m") {
		t.Errorf("%q", out.String())
	}
}
