package systemd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The unit in the documentation is as tight as it says. (systemd-analyze counts from 0, nothing exposed, to 100 here.)
func TestUnitInDocs(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not there")
	}
	text, err := os.ReadFile("../docs/howto-stop.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?ms)^```ini\n(.*?)^```").FindSubmatch(text)
	if m == nil {
		t.Fatal("there is no unit")
	}
	unit := filepath.Join(t.TempDir(), "orders.service")
	if err := os.WriteFile(unit, m[1], 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--no-pager", "--threshold=15", unit).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	t.Log(lines[len(lines)-1])
}
