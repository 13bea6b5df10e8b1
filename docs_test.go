package ackfloor_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var block = regexp.MustCompile("(?ms)^```go\n(.*?)^```")

// The Go code in the documentation compiles: each block is a whole program or test file.
func TestGoCodeInDocs(t *testing.T) {
	files, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(".", "docs_test_") // inside the module, so that it sees its dependencies; removed below
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	blocks := 0
	for _, file := range append(files, "README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range block.FindAllStringSubmatch(string(text), -1) {
			name := "main.go"
			if strings.Contains(m[1], "testing.T") {
				name = "doc_test.go"
			}
			blocks++
			at := filepath.Join(dir, fmt.Sprintf("%s_%d", strings.TrimSuffix(filepath.Base(file), ".md"), i))
			if err := os.MkdirAll(at, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(at, name), []byte(m[1]), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if blocks < 5 {
		t.Fatalf("only %d blocks of Go were found", blocks)
	}
	for _, args := range [][]string{{"vet", "./" + dir + "/..."}, {"test", "./" + dir + "/..."}} {
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", args[0], err, out)
		}
	}
}

// Links between the documents lead somewhere.
func TestLinksInDocs(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	files, _ := filepath.Glob("docs/*.md")
	more, _ := filepath.Glob("*/README.md")
	for _, file := range append(append(files, more...), "README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = block.ReplaceAll(text, nil) // code has brackets of its own
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s: a link to %s: %v", file, m[1], err)
			}
		}
	}
}

// No figure is left to be filled in, and the file map of the core is complete.
func TestDocsAreComplete(t *testing.T) {
	files, _ := filepath.Glob("docs/*.md")
	more, _ := filepath.Glob("*/README.md")
	for _, file := range append(append(files, more...), "README.md", "CHANGELOG.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "@@") {
			t.Errorf("%s has a place that is not filled in", file)
		}
	}
	design, err := os.ReadFile("docs/DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	code, _ := filepath.Glob("worker/*.go")
	for _, file := range code {
		if name := filepath.Base(file); !strings.HasSuffix(name, "_test.go") && !strings.Contains(string(design), name) {
			t.Errorf("docs/DESIGN.md does not say what worker/%s is for", name)
		}
	}
}
