package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// The table of variables in the reference is what the code says. To write it anew: ACKFLOOR_WRITE_DOCS=1 go test ./worker -run TestReferenceTable
func TestReferenceTable(t *testing.T) {
	const path, begin, end = "../docs/reference.md", "|---|---|---|\n", "<!-- end -->"
	b, err := os.ReadFile(path)
	must(t, err)
	head, rest, ok := strings.Cut(string(b), begin)
	old, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the table is not there")
	}
	var table strings.Builder
	row := func(prefix string, f reflect.StructField) {
		value := f.Tag.Get("shown")
		if value == "" {
			value = f.Tag.Get("envDefault")
		}
		if f.Tag.Get("required") != "" {
			value = "required"
		}
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&table, "| `%s%s` | %s | %s |\n", prefix, f.Tag.Get("env"), value, f.Tag.Get("usage"))
	}
	for f := range fields(Config{}) {
		row("WORKER_", f)
	}
	for f := range fields(Connection{}) {
		row("", f)
	}
	if old == table.String() {
		return
	}
	if os.Getenv("ACKFLOOR_WRITE_DOCS") != "" {
		must(t, os.WriteFile(path, []byte(head+begin+table.String()+end+tail), 0o644))
		return
	}
	t.Errorf("the table of variables in docs/reference.md differs from the code, which says:\n%s", &table)
}

// Every log line that the reference names is in the code.
func TestReferenceLogLines(t *testing.T) {
	b, err := os.ReadFile("../docs/reference.md")
	must(t, err)
	_, logs, _ := strings.Cut(string(b), "## Logs")
	var code strings.Builder
	files, err := filepath.Glob("*.go")
	must(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		b, err := os.ReadFile(file)
		must(t, err)
		code.Write(b)
	}
	lines := 0
	for row := range strings.Lines(logs) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		for i, text := range strings.Split(cell, "`") {
			if i%2 == 0 {
				continue
			}
			lines++
			if text = strings.TrimSpace(strings.TrimSuffix(text, "…")); !strings.Contains(code.String(), `"`+text) {
				t.Errorf("no line of the log begins with %q", text)
			}
		}
	}
	if lines < 10 {
		t.Errorf("only %d lines are named", lines)
	}
}
