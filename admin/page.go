package admin

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ackfloor/ackfloor/internal/tape"
	"github.com/ackfloor/ackfloor/worker"
)

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"thousands": number, "ago": ago, "took": took, "clock": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"stamp": func(t time.Time) string { return t.UTC().Format(time.RFC3339) }, "join": func(l []string) string { return plain(strings.Join(l, ", "), longText) },
	"plain": func(s string) string { return plain(s, longText) }, "add": func(a, b int) int { return a + b }, "short": func(s string) string { return plain(s, 64) },
}).ParseFS(files, "assets/*.html"))

// partNames are the parts of the page that change by themselves, each a template of that name.
var partNames = []string{"state", "tape", "work", "failures", "settings", "foot"}

// rendered is a status as HTML.
type rendered struct {
	of    *status
	parts map[string]string
}

// renders keeps the last one, for all who ask for the same.
type renders struct {
	mu   sync.Mutex
	last *rendered
}

func (s *Site) render(st *status) *rendered {
	s.renders.mu.Lock()
	defer s.renders.mu.Unlock()
	if last := s.renders.last; last != nil && last.of == st {
		return last
	}
	out := &rendered{of: st, parts: map[string]string{}}
	v := viewOf(st)
	for _, name := range partNames {
		var b bytes.Buffer
		if err := pages.ExecuteTemplate(&b, name, v); err != nil {
			b.Reset() // the templates take what viewOf makes; a test renders all of them
			fmt.Fprintf(&b, "<p>This part can't be shown.</p>")
		}
		out.parts[name] = b.String()
	}
	s.renders.last = out
	return out
}

// view is what the templates take.
type view struct {
	*status
	Title  string
	On     string // the stream, where there is one
	Shown  []shownRunner
	Tapes  []shownTape
	Uptime time.Duration
}

type shownRunner struct {
	runner
	Now          time.Time
	Class, Words string // its state, for the eye and in words
	Acked, Lag   spark
	Longest      []item // of Held.Oldest
	NotListed    int    // that are held beside those
	Changed      int    // settings that are not the defaults
}

type shownTape struct {
	seenTape
	Now     time.Time
	Drawing drawing
	Rows    []row
	More    int // consumers that are not in the table
}

type row struct {
	tape.Cursor
	Class string
	Own   bool
}

const (
	rowsMost     = 50
	longestShown = 10
)

func viewOf(st *status) view {
	v := view{status: st, Uptime: st.Now.Sub(st.Process.Started)}
	names := make([]string, 0, len(st.Runners))
	for _, r := range st.Runners {
		class, words := stateWords(r)
		one := shownRunner{runner: r, Now: st.Now, Class: class, Words: words,
			Acked: sparkOf(r.History.AckedPerSecond, "Acknowledged a second", rate),
			Lag:   sparkOf(r.History.Unprocessed, "Unprocessed messages", func(x float64) string { return thousands(uint64(x)) })}
		one.Longest = r.Held.Oldest[:min(longestShown, len(r.Held.Oldest))]
		one.NotListed = len(r.Held.Oldest) + r.Held.More - len(one.Longest)
		if now, ok := st.unprocessed(r); ok { // the last point of the history may be older
			one.Lag.Now = thousands(now)
		}
		for _, s := range r.Settings {
			if !s.Default {
				one.Changed++
			}
		}
		v.Shown = append(v.Shown, one)
		if len(names) < 3 {
			names = append(names, plain(r.Consumer, 64))
		}
	}
	v.Title = strings.Join(names, ", ")
	if more := len(st.Runners) - len(names); more > 0 {
		v.Title += fmt.Sprintf(" and %d more", more)
	}
	if len(st.Tapes) == 1 {
		v.On = plain(st.Tapes[0].Stream, 64)
	}
	for _, t := range st.Tapes {
		v.Tapes = append(v.Tapes, shown(st, t))
	}
	return v
}

// unprocessed is what the server said last of a Runner's consumer.
func (st *status) unprocessed(r runner) (uint64, bool) {
	for _, t := range st.Tapes {
		if t.Tape == nil || t.Problem != "" || t.Stream != r.Stream {
			continue
		}
		for _, c := range t.Tape.Cursors {
			if c.Consumer == r.Consumer && c.Error == "" {
				return c.Unprocessed, true
			}
		}
	}
	return 0, false
}

func shown(st *status, t seenTape) shownTape {
	out := shownTape{seenTape: t, Now: st.Now}
	if t.Tape == nil {
		return out
	}
	held := map[string][]worker.HeldItem{}
	for _, r := range st.Runners {
		if r.Stream == t.Stream {
			held[r.Consumer] = append(held[r.Consumer], r.marks...)
		}
	}
	out.Drawing = draw(t.Tape, held)
	for i, c := range t.Tape.Cursors {
		if i == rowsMost {
			out.More = len(t.Tape.Cursors) - i
			break
		}
		_, own := held[c.Consumer]
		out.Rows = append(out.Rows, row{c, colour(t.Tape, c.Consumer), own})
	}
	return out
}

// stateWords say how a Runner is, as a class for its colour and in a line.
func stateWords(r runner) (class, words string) {
	switch {
	case !r.Alive:
		return "bad", "Failed: " + r.Reason
	case r.State == worker.StateDraining.String():
		return "busy", fmt.Sprintf("Draining: %d still held", r.Held.Running+r.Held.Waiting+r.Held.Kept)
	case r.State == worker.StateEnded.String():
		return "off", "Ended"
	case r.State != worker.StateWorking.String():
		return "busy", "Starting: " + r.Reason
	case r.Paused != "":
		return "warn", "Paused: " + r.Paused
	case !r.Ready:
		return "warn", "Not ready: " + r.Reason
	case r.Standby:
		return "off", "Standing by: another process works"
	}
	return "ok", "Working"
}

// servePage serves the whole page; scripts only keep it new.
func (s *Site) servePage(w http.ResponseWriter, r *http.Request) {
	s.freshen(r)
	st := s.now()
	parts := map[string]template.HTML{}
	for name, html := range s.render(st).parts {
		parts[name] = template.HTML(html) // made by the templates, which have escaped what is in it
	}
	var b bytes.Buffer
	v := viewOf(st)
	if err := pages.ExecuteTemplate(&b, "page.html", map[string]any{"Title": v.Title, "On": v.On, "Parts": parts, "Assets": assetsVersion}); err != nil {
		refuse(w, http.StatusInternalServerError, "the page can't be rendered")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes())
}

// number takes whatever integer a template has.
func number(n any) string {
	switch n := n.(type) {
	case uint64:
		return thousands(n)
	case int:
		return thousands(uint64(max(n, 0)))
	}
	return fmt.Sprint(n)
}

// ago tells how long ago something was, coarsely: it need not be told again every second.
func ago(now, then time.Time) string {
	d := now.Sub(then)
	switch {
	case then.IsZero():
		return "never"
	case d < 2*time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// took is a duration as people read it.
func took(d any) string {
	var t time.Duration
	switch d := d.(type) {
	case float64:
		t = time.Duration(d * float64(time.Second))
	case time.Duration:
		t = d
	}
	switch {
	case t < time.Second:
		return fmt.Sprintf("%d ms", t.Milliseconds())
	case t < 10*time.Second:
		return fmt.Sprintf("%.1f s", t.Seconds())
	case t < time.Minute:
		return fmt.Sprintf("%d s", int(t.Seconds()))
	case t < time.Hour:
		return fmt.Sprintf("%d min %d s", int(t.Minutes()), int(t.Seconds())%60)
	case t < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(t.Hours()), int(t.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(t.Hours()/24))
}
