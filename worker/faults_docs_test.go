package worker

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tests that docs/guarantees.md names are there.
func TestGuaranteesNameTheirTests(t *testing.T) {
	text, err := os.ReadFile("../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, dir := range []string{".", "../deadletter", "../testutil/fault"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %d files", dir, err, len(files))
		}
		for _, file := range files {
			code, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)`).FindAllStringSubmatch(string(code), -1) {
				there[m[1]] = true
				there[filepath.Base(dir)+":"+m[1]] = true
			}
		}
	}
	names := regexp.MustCompile(`(?:fault:)?\bTest[A-Z]\w+`).FindAllString(string(text), -1)
	for _, name := range names {
		if !there[name] {
			t.Errorf("there is no test %s", name)
		}
	}
	if len(names) < 60 || !strings.Contains(string(text), "## Does not hold") {
		t.Errorf("%d tests are named", len(names))
	}
}
