package live

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const rulesFile = "../ackfloor.rules.yml"

// The rules are well-formed, and each fires when it should and not when it should not: promtool tells.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", "--lint-fatal", rulesFile}, {"test", "rules", "../ackfloor.rules.test.yml"}} {
		out, err := exec.Command(program(t, "promtool"), args...).CombinedOutput()
		if err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// quickened makes of the rules a file of the same rules under other names, with times of seconds instead of minutes, so that a test can wait for them.
func quickened(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, r := range []struct{ old, new string }{
		{`consumer:ackfloor_`, "quick:ackfloor_"},
		{`alert: Ackfloor`, "alert: Quick"},
		{`name: ackfloor_`, "name: quick_"},
		{`\[1h\]`, "[20s]"},
		{`\[\d+m\]`, "[7s]"},
		{`for: \d+m`, "for: 1s"},
		{`median5m > 600`, "median5m > 3"},
		{`look_age_seconds < 60`, "look_age_seconds < 30"},
		{`look_age_seconds > 60`, "look_age_seconds > 6"},
		{`handle_timeout_seconds \+ 30`, "handle_timeout_seconds + 1"},
		{`drain_timeout_seconds \+ 10`, "drain_timeout_seconds - 6"},
		{`\) > 10\)`, ") > 2)"},
		{`\) > 5\)`, ") > 2)"},
	} {
		pattern := regexp.MustCompile(r.old)
		if !pattern.MatchString(text) {
			t.Fatalf("the rules have no %q any more", r.old)
		}
		text = pattern.ReplaceAllString(text, r.new)
	}
	path := filepath.Join(t.TempDir(), "quick.yml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// panelQuery is a query of the dashboard, with its variables filled in.
type panelQuery struct {
	panel, expr string
	instant     bool
}

func dashboard(t *testing.T) []panelQuery {
	t.Helper()
	b, err := os.ReadFile("../ackfloor.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct {
				Expr    string
				Instant bool
			}
		}
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("$__rate_interval", "4s", "$stream_name", ".+", "$consumer_name", ".+")
	var out []panelQuery
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			expr := fill.Replace(q.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("%s: a variable that nobody fills in: %s", p.Title, expr)
			}
			out = append(out, panelQuery{p.Title, expr, q.Instant})
		}
	}
	if len(out) < 40 {
		t.Fatalf("only %d queries were found", len(out))
	}
	return out
}

// checkMetrics has the linter of promtool read what a worker exposes.
func checkMetrics(t *testing.T, s *service) {
	t.Helper()
	cmd := exec.Command(program(t, "promtool"), "check", "metrics")
	cmd.Stdin = bytes.NewReader(s.metrics(t))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
