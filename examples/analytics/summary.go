package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

const (
	topNames   = 20
	ofService  = "summary" // summary.txt, summary.json and summary.png: the service's
	ofReport   = "report"
	textEnding = ".txt"
	jsonEnding = ".json"
	pngEnding  = ".png"
)

// summary is what summary.json and report.json have.
type summary struct {
	From           time.Time `json:"from"` // of the first event and of the last, UTC
	To             time.Time `json:"to"`
	Hours          int       `json:"hours"` // that have events
	Events         int64     `json:"events"`
	Views          int64     `json:"views"`
	Inputs         int64     `json:"inputs"`
	TopPages       []named   `json:"top_pages"`
	OtherPages     int64     `json:"other_pages"` // views of all others
	InputsByField  []named   `json:"inputs_by_field"`
	OtherFields    int64     `json:"other_fields"`
	ViewsPerMinute []minute  `json:"views_per_minute"` // minutes without a view are left out
	Copies         int64     `json:"copies"`           // rows that were left out: their message was in another file, too
	Files          int       `json:"files"`
	Bytes          int64     `json:"bytes"`
}

type named struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

type minute struct {
	Minute time.Time `json:"minute"`
	Views  int64     `json:"views"`
}

func summarise(hours []counts, files []file) summary {
	n := sum(hours)
	s := summary{From: n.from, To: n.to, Hours: len(hours), Events: n.events, Views: n.views, Inputs: n.inputs, Copies: n.copies, Files: len(files), ViewsPerMinute: []minute{}}
	s.TopPages, s.OtherPages = top(n.pages, n.views)
	s.InputsByField, s.OtherFields = top(n.fields, n.inputs)
	for _, hour := range hours {
		begin := hour.from.Truncate(time.Hour)
		for i, views := range hour.minutes {
			if views > 0 {
				s.ViewsPerMinute = append(s.ViewsPerMinute, minute{begin.Add(time.Duration(i) * time.Minute), views})
			}
		}
	}
	for _, f := range files {
		s.Bytes += f.size
	}
	return s
}

// top returns the most frequent names, and how often all others were seen.
func top(of map[string]int64, total int64) (most []named, others int64) {
	most = make([]named, 0, len(of))
	for name, times := range of {
		most = append(most, named{name, times})
	}
	slices.SortFunc(most, func(a, b named) int { return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Name, b.Name)) })
	most = slices.Clone(most[:min(topNames, len(most))])
	for _, n := range most {
		total -= n.Count
	}
	return most, total
}

// text writes a summary for a reader.
func (s *summary) text(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	const at = "2006-01-02 15:04:05"
	if s.Events == 0 {
		fmt.Fprintln(w, "no events yet")
		return w.Flush()
	}
	fmt.Fprintf(w, "%s, %s and %s, from %s to %s UTC\n",
		plural(s.Events, "event"), plural(s.Views, "page view"), plural(s.Inputs, "input"), s.From.Format(at), s.To.Format(at))
	fmt.Fprintf(w, "in %s, %s, %s", plural(s.Hours, "hour"), plural(s.Files, "file"), plural(s.Bytes, "byte"))
	if s.Copies > 0 {
		fmt.Fprintf(w, "; besides, %s of events that count once", plural(s.Copies, "further copy"))
	}
	fmt.Fprintln(w)
	list := func(title, others string, names []named, more int64) {
		fmt.Fprintf(w, "\n%s\n", title)
		for _, n := range names {
			fmt.Fprintf(w, "%d\t  %s\n", n.Count, printable(n.Name))
		}
		if more > 0 {
			fmt.Fprintf(w, "%d\t  (%s)\n", more, others)
		}
	}
	list("Pages by views", "all other pages", s.TopPages, s.OtherPages)
	list("Inputs by field", "all other fields", s.InputsByField, s.OtherFields)
	fmt.Fprint(w, "\nViews per minute, the newest\n")
	for _, m := range s.ViewsPerMinute[max(0, len(s.ViewsPerMinute)-10):] {
		fmt.Fprintf(w, "%d\t  %s\n", m.Views, m.Minute.Format("2006-01-02 15:04"))
	}
	return w.Flush()
}

func plural[N int | int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// printable escapes what a terminal might obey, and cuts what is too long for a line. Names come from outside.
func printable(name string) string {
	if runes := []rune(name); len(runes) > 60 {
		name = string(runes[:59]) + "…"
	}
	if strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return name
	}
	return strconv.Quote(name)
}

// save writes the summary as text, as JSON and as a chart. A reader finds the old one or the new one of each, never a part.
func (s *store) save(name string, sum summary) error {
	var text, png bytes.Buffer
	if err := sum.text(&text); err != nil {
		return err
	}
	js, err := json.MarshalIndent(sum, "", "  ")
	if err != nil {
		return err
	}
	if err := chart(&png, sum.ViewsPerMinute); err != nil {
		return err
	}
	for _, f := range []struct {
		ending string
		data   []byte
	}{{textEnding, text.Bytes()}, {jsonEnding, append(js, '\n')}, {pngEnding, png.Bytes()}} {
		if err := s.replace(name+f.ending, f.data); err != nil {
			return fmt.Errorf("analytics: %w", err)
		}
	}
	return nil
}

// replace is not synced: a summary can be made again.
func (s *store) replace(name string, data []byte) (err error) {
	f, err := s.temporary()
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = cmp.Or(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(s.dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
