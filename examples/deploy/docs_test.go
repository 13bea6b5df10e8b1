package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The documentation names each secret that the pods need, has the commands that compose.yaml has, and the times of the files.
func TestDocs(t *testing.T) {
	t.Parallel()
	text := read(t, filepath.Join(repository, "docs", "howto-deploy.md"))
	for name, w := range render(t).workloads {
		for _, v := range w.template.Spec.Volumes {
			if v.Secret != nil && !strings.Contains(text, "create secret generic "+v.Secret.SecretName+" ") {
				t.Errorf("%s needs the secret %s, which nobody is told to make", name, v.Secret.SecretName)
			}
		}
	}
	commands := regexp.MustCompile(`(?m)^#   (\S.*?)(   *# .*)?$`).FindAllStringSubmatch(read(t, "compose.yaml"), -1)
	if len(commands) != 4 {
		t.Errorf("%d commands in compose.yaml", len(commands))
	}
	for _, c := range commands {
		if !strings.Contains(c[1], "logs") && !strings.Contains(text, "\n    "+c[1]+"\n") {
			t.Errorf("howto-deploy.md has no %q", c[1])
		}
	}
	for _, row := range []string{"| inventory, analytics | 25 s | 60 s | 40 s | 40 s |", "| email | 50 s | 70 s | 70 s | 70 s |"} {
		if !strings.Contains(text, row) {
			t.Errorf("howto-deploy.md has no row %q", row)
		}
	}
	readme := read(t, "README.md")
	for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(readme, -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("README.md: a link to %s: %v", m[1], err)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
