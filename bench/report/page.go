package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
)

// page is docs/FIGURES.md.
func page(results []figures.Result) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# Figures")
	p("")
	p("Written by `go run ./bench/report`, which measures all of this in about 25 minutes, on a machine with nothing else to do. [bench/README.md](../bench/README.md) says what is measured, and how.")
	p("")
	p("%s", mainTable(results))
	p("## Where it was measured")
	p("")
	for _, m := range machines(results) {
		p("- %s", m)
	}
	p("")
	p("Each part names its command, its flags with the seeds, and when it ran; *load* is how many processes wanted to run in the minute before. Server, workers and bench share the machine.")
	p("")
	p("%s", peers)
	p("## What was aimed at")
	p("")
	met, all := aimsTable(results)
	p("%d of %d aims are met. Those that are missed:", met, all)
	p("")
	p("%s", missedTable(results))
	for _, r := range results {
		p("## %s", strings.ToUpper(r.Mode[:1])+r.Mode[1:])
		p("")
		if says := saysOf(r.Mode); says != "" {
			p("%s", says)
			p("")
		}
		p("    %s", r.Command)
		p("")
		p("%s, %.0f s, load %.1f.%s", r.At.Format(time.DateOnly), r.Took, r.Load, failedText(r))
		p("")
		for _, t := range r.Tables {
			writeTable(&b, t)
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func failedText(r figures.Result) string {
	if r.Failed == "" {
		return ""
	}
	first, _, _ := strings.Cut(r.Failed, "\n")
	return " It was not finished: " + cell(first)
}

const peers = `## Who is compared

| row | what it is | what it does not promise |
|---|---|---|
| consume, consume-drain, consume-stop | nats.go's ` + "`Consume`" + ` with plain ` + "`Ack`" + `, stopped by ` + "`Drain`" + ` or ` + "`Stop`" + ` | that an ack arrived; that a message which waits for its handler keeps its lease |
| consume-slots | the same, handed to 16 goroutines | the same |
| doubleack | ` + "`Consume`" + ` with ` + "`DoubleAck`" + `: one round trip a message | leases as above |
| watermill, watermill-async | watermill-nats with a Router; acks confirmed one by one, or plain | that what runs at a stop is acknowledged: its subscriber gives up on it when it closes; leases longer than ack_wait |
| pcgroups | orbit.go's static partitioned consumer groups, made for strict order by partition: one callback at a time for each member | retries, leases, a drain: the callback has the message, and acknowledges it |
| ackfloor | a worker, every ack confirmed | see [guarantees](guarantees.md) |
`

// machines are those of all results, each once.
func machines(results []figures.Result) (out []string) {
	for _, r := range results {
		parts := []string{r.Machine.String()}
		for _, name := range slices.Sorted(maps.Keys(r.Machine.Versions)) {
			parts = append(parts, name[strings.Index(name, "/")+1:]+" "+r.Machine.Versions[name])
		}
		line := strings.Join(parts, ", ")
		if !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}

// writeTable writes a table with its notes, aims and charts.
func writeTable(b *strings.Builder, t *figures.Table) {
	p := func(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
	if t.Title != "" {
		p("### %s", shortTitle(t.Title))
		p("")
		p("%s.", strings.TrimRight(t.Title, "."))
		p("")
	}
	if t.Header != nil {
		p("| %s |", strings.Join(cells(t.Header), " | "))
		p("|---|%s", alignments(t))
		for _, row := range t.Rows {
			p("| %s |", strings.Join(cells(row), " | "))
		}
		p("")
	}
	for _, note := range t.Notes {
		p("%s", note)
		p("")
	}
	for _, a := range t.Aims {
		p("- %s", aimLine(a))
	}
	if len(t.Aims) > 0 {
		p("")
	}
	for _, c := range t.Charts {
		p("![%s](figures/%s.svg)", cell(c.Title), c.Name)
		p("")
	}
}

// alignments are those of the columns behind the first: numbers to the right, words to the left.
func alignments(t *figures.Table) string {
	var b strings.Builder
	for i := range t.Header[1:] {
		words := false
		for _, row := range t.Rows {
			words = words || i+1 < len(row) && row[i+1] != "-" && !strings.ContainsAny(row[i+1][:min(2, len(row[i+1]))], "0123456789")
		}
		b.WriteString(map[bool]string{true: "---|", false: "---:|"}[words])
	}
	return b.String()
}

// shortTitle is the part of a title that is a headline.
func shortTitle(title string) string {
	if i := strings.IndexAny(title, ":;,"); i > 0 {
		if rest := title[i:]; strings.HasPrefix(rest, ", schedule ") { // the schedule's name belongs to it
			if j := strings.IndexByte(rest, ':'); j > 0 {
				return title[:i+j]
			}
		}
		return title[:i]
	}
	return title
}

func aimLine(a figures.Aim) string {
	word := "met"
	if !a.Met {
		word = "**missed**"
	}
	return fmt.Sprintf("%s: %s: %s (aim %s %g)", word, cell(a.What), number(a.Got), strings.NewReplacer("<=", "≤", ">=", "≥").Replace(a.Bound), a.Want)
}

func aimsTable(results []figures.Result) (met, all int) {
	for _, r := range results {
		for _, t := range r.Tables {
			for _, a := range t.Aims {
				all++
				if a.Met {
					met++
				}
			}
		}
	}
	return met, all
}

func missedTable(results []figures.Result) string {
	var b strings.Builder
	b.WriteString("| part | what | measured | aim |\n|---|---|---:|---:|\n")
	none := true
	for _, r := range results {
		for _, t := range r.Tables {
			for _, a := range t.Aims {
				if !a.Met {
					none = false
					fmt.Fprintf(&b, "| %s | %s | %s | %s %g |\n", r.Mode, cell(a.What), number(a.Got), a.Bound, a.Want)
				}
			}
		}
	}
	if none {
		return "None.\n"
	}
	return b.String()
}

// number has as many digits as say something.
func number(v float64) string {
	switch {
	case v == float64(int64(v)):
		return fmt.Sprintf("%.0f", v)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func cells(row []string) []string {
	out := make([]string, len(row))
	for i, c := range row {
		out[i] = cell(c)
	}
	return out
}

// cell is text that a table of Markdown can hold.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(s)
}
