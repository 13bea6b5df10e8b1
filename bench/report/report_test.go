package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
	"github.com/ackfloor/ackfloor/testutil"
)

const (
	quickParts = "faults,batches,runners,held,growth,scaling" // the tests of bench run the others
	byHand     = "# A page\n\n<!-- figures -->\nold\n<!-- /figures -->\nthe end\n"
)

// TestQuick measures with small numbers and writes everything into a temporary directory.
func TestQuick(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "bench")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/ackfloor/ackfloor/bench").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	page := filepath.Join(dir, "page")
	write(t, filepath.Join(page, "README.md"), byHand)
	opt, err := parseOptions([]string{"-quick", "-out", page, "-bench", binary, "-server", testutil.ServerBinary(t), "-only", quickParts})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	opt.log = &log
	if err := run(context.Background(), opt); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	text := read(t, filepath.Join(page, "docs", "FIGURES.md"))
	for _, want := range []string{"\n## Faults\n", "\n## Batches\n", "\n## Runners\n", "\n## Held\n", "\n## Growth\n", "\n## Scaling\n", "| consume-drain | 1 |", "| ackfloor | 1 |",
		"go run ./bench -mode growth -lasting 50ms", "nats-server ", "three servers, R3", "supercluster, worker in the other cluster"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for part := range strings.SplitSeq(quickParts, ",") {
		if _, err := os.Stat(filepath.Join(page, "bench", "results", part+".json")); err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		t.Log(log.String(), text)
	}
	checkCharts(t, page, text)
	readme := read(t, filepath.Join(page, "README.md"))
	if !strings.HasPrefix(readme, "# A page\n\n<!-- figures -->\n\n| |") || !strings.HasSuffix(readme, "|\n\n<!-- /figures -->\nthe end\n") || !strings.Contains(readme, "handled again") {
		t.Errorf("README.md is\n%s", readme)
	}
	writesTheSameAgain(t, page)
}

// checkCharts: every picture of the page is there, and is XML.
func checkCharts(t *testing.T, page, text string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(page, "docs", "figures", "*.svg"))
	if err != nil || len(files) < 8 {
		t.Errorf("%d charts, %v", len(files), err)
	}
	if n := strings.Count(text, "](figures/"); n != len(files) {
		t.Errorf("%d pictures on the page, %d files", n, len(files))
	}
	for _, file := range files {
		if !strings.Contains(text, "](figures/"+filepath.Base(file)+")") {
			t.Errorf("%s is not on the page", filepath.Base(file))
		}
		d := xml.NewDecoder(strings.NewReader(read(t, file)))
		d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Errorf("%s: %v", filepath.Base(file), err)
				break
			}
		}
	}
}

// writesTheSameAgain: from the figures that were kept comes the same page.
func writesTheSameAgain(t *testing.T, page string) {
	t.Helper()
	again := t.TempDir()
	opt, err := parseOptions([]string{"-from", filepath.Join(page, "bench", "results"), "-out", again})
	if err != nil {
		t.Fatal(err)
	}
	if err := run(context.Background(), opt); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(page, "docs", "figures", "*.svg"))
	for _, file := range append(files, filepath.Join(page, "docs", "FIGURES.md")) {
		rel, err := filepath.Rel(page, file)
		if err != nil {
			t.Fatal(err)
		}
		if read(t, file) != read(t, filepath.Join(again, rel)) {
			t.Errorf("%s is another one", rel)
		}
	}
}

// TestPageIsThatOfTheFigures: docs/FIGURES.md and the tables in README.md and docs/SCALING.md are what the kept figures say.
func TestPageIsThatOfTheFigures(t *testing.T) {
	top := filepath.Join("..", "..")
	results, err := figures.Read(filepath.Join("..", "results"), partNames())
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("no figures are kept yet: go run ./bench/report")
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, file := range []string{"README.md", filepath.Join("docs", "SCALING.md")} {
		write(t, filepath.Join(dir, file), read(t, filepath.Join(top, file)))
	}
	if err := writePages(options{out: dir}, results); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"README.md", filepath.Join("docs", "SCALING.md"), filepath.Join("docs", "FIGURES.md")} {
		if read(t, filepath.Join(dir, file)) != read(t, filepath.Join(top, file)) {
			t.Errorf("%s is not what bench/results say: go run ./bench/report -from bench/results", file)
		}
	}
	charts, _ := filepath.Glob(filepath.Join(dir, "docs", "figures", "*.svg"))
	for _, chart := range charts {
		if _, err := os.Stat(filepath.Join(top, "docs", "figures", filepath.Base(chart))); err != nil {
			t.Errorf("a chart is missing: %v", err)
		}
	}
}

// TestFailedPart: a part that fails does not keep what was measured before from being written, nor replace it.
func TestFailedPart(t *testing.T) {
	dir := t.TempDir()
	results := filepath.Join(dir, "bench", "results")
	kept := figures.Result{Mode: "drain", Tables: []*figures.Table{{Title: "Drain: as it was", Header: []string{"contestant", "max"}, Rows: [][]string{{"ackfloor-confirm", "7"}}}}}
	if err := figures.Write(results, kept); err != nil {
		t.Fatal(err)
	}
	opt, err := parseOptions([]string{"-quick", "-out", dir, "-bench", filepath.Join(dir, "there is no such program"), "-only", "drain"})
	if err != nil {
		t.Fatal(err)
	}
	opt.log = io.Discard
	if err := run(context.Background(), opt); err == nil || !strings.Contains(err.Error(), "drain") {
		t.Errorf("error %v", err)
	}
	if text := read(t, filepath.Join(dir, "docs", "FIGURES.md")); !strings.Contains(text, "| ackfloor-confirm | 7 |") {
		t.Errorf("the page lost what was kept:\n%s", text)
	}
}

// TestNoTimeLeft: what the budget has no room for is named, and nothing is run.
func TestNoTimeLeft(t *testing.T) {
	opt, err := parseOptions([]string{"-budget", "1ms", "-run", "-out", t.TempDir(), "-bench", "none", "-only", "growth"})
	if err != nil {
		t.Fatal(err)
	}
	opt.log = io.Discard
	if err := run(context.Background(), opt); err == nil || !strings.Contains(err.Error(), "growth: not measured") {
		t.Errorf("error %v", err)
	}
}

func TestOptions(t *testing.T) {
	for _, args := range [][]string{{"-only", "nothing"}, {"page"}, {"-from", "x", "-run"}, {"-budget", "x"}} {
		if _, err := parseOptions(args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

func TestPlaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	write(t, file, "a\n<!-- figures -->\n<!-- /figures -->\nb\n<!-- figures: far -->\nx\n\ny\n<!-- /figures -->\nc\n")
	blocks := map[string]string{"": "main\n", "far": "of far\n"}
	for range 2 { // the second time there is nothing to do
		if err := fillIn(file, blocks); err != nil {
			t.Fatal(err)
		}
		if got, want := read(t, file), "a\n<!-- figures -->\n\nmain\n\n<!-- /figures -->\nb\n<!-- figures: far -->\n\nof far\n\n<!-- /figures -->\nc\n"; got != want {
			t.Errorf("got %q", got)
		}
	}
	write(t, file, "<!-- figures: nowhere -->\n<!-- /figures -->\n")
	if err := fillIn(file, blocks); err == nil {
		t.Error("a place without figures is taken")
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
