package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// shopDay is 10 minutes of one hour and 5 of one three hours later: i views of pages in the i-th minute, and one input in each.
func shopDay() (rows []row) {
	n := uint64(0)
	add := func(at time.Time, page, field string) {
		n++
		rows = append(rows, row{Sequence: n, Published: at.Add(time.Duration(n) * time.Millisecond).UnixNano(), Subject: "events.x", Page: page, Field: field})
	}
	for i := range 15 {
		at := noon.Add(time.Duration(20+i) * time.Minute)
		if i >= 10 {
			at = at.Add(3 * time.Hour)
		}
		for view := range i {
			add(at, fmt.Sprintf("/p%d", view%3), "")
		}
		add(at, "", []string{"email", "search"}[i%2])
	}
	return rows
}

func (s *store) mustWriteHours(t *testing.T, rows []row) {
	t.Helper()
	hours := make(map[time.Time][]row)
	for _, r := range rows {
		hours[r.hour()] = append(hours[r.hour()], r)
	}
	for _, some := range hours {
		s.mustWrite(t, some)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.mustWriteHours(t, shopDay())
	s.mustWrite(t, shopDay()[:4]) // once more, in another cut
	var text bytes.Buffer
	if err := report(t.Context(), s, 0, s, &text); err != nil {
		t.Fatal(err)
	}
	want := `120 events, 105 page views and 15 inputs, from 2026-11-30 12:20:00 to 2026-11-30 15:34:00 UTC
in 2 hours, 3 files, SIZE; besides, 4 further copies of events that count once

Pages by views
  40  /p0
  35  /p1
  30  /p2

Inputs by field
  8  email
  7  search

Views per minute, the newest
   5  2026-11-30 12:25
`
	got := text.String()
	var sum summary
	js, err := os.ReadFile(filepath.Join(s.dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(js, &sum); err != nil {
		t.Fatal(err)
	}
	want = strings.Replace(want, "SIZE", fmt.Sprintf("%d bytes", sum.Bytes), 1)
	if !strings.HasPrefix(got, want) {
		t.Errorf("the text is\n%s\nwant\n%s", got, want)
	}
	if file, err := os.ReadFile(filepath.Join(s.dir, "report.txt")); err != nil || string(file) != got {
		t.Errorf("%s has another text, %v", "report.txt", err)
	}
	if sum.Events != 120 || sum.Copies != 4 || len(sum.ViewsPerMinute) != 14 || !sum.ViewsPerMinute[0].Minute.Equal(noon.Add(21*time.Minute)) ||
		!slices.Equal(sum.InputsByField, []named{{"email", 8}, {"search", 7}}) {
		t.Errorf("the JSON says %s", js)
	}
}

func TestReportOfTheNewestHours(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.mustWriteHours(t, shopDay())
	var text bytes.Buffer
	if err := report(t.Context(), s, 1, s, &text); err != nil || !strings.HasPrefix(text.String(), "65 events, 60 page views and 5 inputs, from 2026-11-30 15:30") {
		t.Errorf("report = %v\n%s", err, text.String())
	}
}

func TestReportOfNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var text bytes.Buffer
	if err := report(t.Context(), s, 0, s, &text); err != nil || text.String() != "no events yet\n" {
		t.Errorf("report = %v, %q", err, text.String())
	}
	_ = s.image(t, "report.png")
	if err := report(t.Context(), &store{dir: s.dir + "x"}, 0, s, &text); err == nil {
		t.Error("a folder that is not there is no error")
	}
}

func (s *store) image(t *testing.T, name string) image.Image {
	t.Helper()
	f, err := os.Open(filepath.Join(s.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// In the chart of shopDay, blue grows from left to right, is absent in the hours between, and comes again on the right.
func TestChart(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.mustWriteHours(t, shopDay())
	if err := report(t.Context(), s, 0, s, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	if keep := os.Getenv("ANALYTICS_KEEP_CHART"); keep != "" { // to look at it
		data, err := os.ReadFile(filepath.Join(s.dir, "report.png"))
		if err := errors.Join(err, os.WriteFile(keep, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	img := s.image(t, "report.png")
	size := img.Bounds().Size()
	if size.X < 900 || size.Y < 350 {
		t.Fatalf("it is %v", size)
	}
	blue := make([]int, size.X) // pixels of the area in each column
	for x := range size.X {
		for y := range size.Y {
			if r, g, b, _ := img.At(x, y).RGBA(); r>>8 == 0xc8 && g>>8 == 0xdc && b>>8 == 0xf0 {
				blue[x]++
			}
		}
	}
	at := func(part float64) int {
		return slices.Max(blue[int(part*float64(size.X)):int((part+0.02)*float64(size.X))])
	}
	first := slices.IndexFunc(blue, func(n int) bool { return n > 0 })
	middle, right := at(0.5), slices.Max(blue[size.X*9/10:])
	left := slices.Max(blue[:size.X/4])
	if first < 0 || middle != 0 || left < size.Y/4 || right < left*12/10 {
		t.Errorf("the area is %d high on the left, %d in the middle, %d on the right, of %d", left, middle, right, size.Y)
	}
}

func TestChartOfOneMinuteAndOfYears(t *testing.T) {
	t.Parallel()
	for what, views := range map[string][]minute{
		"a minute":  {{noon, 3}},
		"a day":     {{noon, 1}, {noon.Add(24 * time.Hour), 7}},
		"ten years": {{noon, 1}, {noon.AddDate(10, 0, 0), 7}},
	} {
		points, step := inSteps(views)
		if n := len(points); n < 2 || n > chartSteps+2 {
			t.Errorf("%s: %d points with a step of %v", what, n, step)
		}
		total := 0.0
		for _, p := range points[:len(points)-1] {
			total += p.Y * step.Minutes()
		}
		want := 0.0
		for _, v := range views {
			want += float64(v.Views)
		}
		if total < want-1e-6 || total > want+1e-6 {
			t.Errorf("%s: %f views are drawn, want %f", what, total, want)
		}
		var out bytes.Buffer
		if err := chart(&out, views); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := png.Decode(&out); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Names come from outside: neither a terminal nor memory is theirs.
func TestNamesFromOutside(t *testing.T) {
	t.Parallel()
	var n counts
	n.pages, n.fields = make(map[string]int64), make(map[string]int64)
	for i := range mostNames + 500 {
		n.add(&row{Sequence: uint64(i + 1), Published: noon.UnixNano(), Page: fmt.Sprintf("/%05d", i)})
	}
	n.add(&row{Sequence: 1, Published: noon.UnixNano(), Page: "/00007"})
	s := summarise([]counts{n}, nil)
	if len(n.pages) != mostNames || s.TopPages[0] != (named{"/00007", 2}) || s.OtherPages != mostNames+501-2-(topNames-1) {
		t.Errorf("%d names are counted, %v first, %d others", len(n.pages), s.TopPages[0], s.OtherPages)
	}
	for name, want := range map[string]string{
		"/home":                 "/home",
		"\x1b[2Jé\n":            `"\x1b[2Jé\n"`,
		strings.Repeat("ü", 80): strings.Repeat("ü", 59) + "…",
	} {
		if got := printable(name); got != want {
			t.Errorf("printable(%q) = %q", name, got)
		}
	}
}

// The service sums up again and again: an hour whose files are the same is not read again.
func TestAnHourIsReadAgainOnlyWhenItsFilesChange(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.mustWriteHours(t, shopDay())
	c := counter{store: s}
	if _, _, err := c.count(t.Context(), 24); err != nil {
		t.Fatal(err)
	}
	for _, name := range s.names(t) {
		if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o600); err != nil { // so that reading it would fail
			t.Fatal(err)
		}
	}
	hours, _, err := c.count(t.Context(), 24)
	if err != nil || sum(hours).events != 120 {
		t.Errorf("count = %v", err)
	}
	if _, _, err := c.count(t.Context(), 1); err != nil || len(c.hours) != 1 {
		t.Errorf("it remembers %d hours, %v", len(c.hours), err)
	}
}
