package live

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ackfloor/ackfloor/testutil"
)

const howto = "../../../docs/howto-alerts.md"

// command is one of the documentation, and what it is said to print.
type command struct {
	line string
	want []string // lines; "..." stands for any number, and at the end of a line for its rest
}

// tools is a folder with the commands ackfloor and nats.
func tools(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "ackfloor"), "github.com/ackfloor/ackfloor/cmd/ackfloor").CombinedOutput(); err != nil {
		t.Fatalf("building the ackfloor command: %v\n%s", err, out)
	}
	if err := os.Symlink(testutil.NatsCommand(t), filepath.Join(bin, "nats")); err != nil {
		t.Fatal(err)
	}
	return bin
}

// checkCommands runs what looks like a terminal in the documentation, and compares what it prints.
func checkCommands(t *testing.T, bin, url string, s *service) {
	t.Helper()
	text, err := os.ReadFile(howto)
	if err != nil {
		t.Fatal(err)
	}
	checkConfig(t, string(text))
	cs := commands(string(text))
	if len(cs) < 7 {
		t.Errorf("only %d commands were found in %s", len(cs), howto)
	}
	for _, c := range cs {
		line := strings.ReplaceAll(c.line, "127.0.0.1:9464", s.addr)
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = "../../.."
		cmd.Env = append(cleanEnv(), "NATS_URL="+url, "XDG_CONFIG_HOME="+bin, "PATH="+bin+":"+os.Getenv("PATH"))
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		if err := cmd.Run(); err != nil {
			t.Errorf("$ %s: %v\n%s%s", c.line, err, &out, &stderr)
			continue
		}
		if !matches(c.want, out.String()) {
			t.Errorf("$ %s prints\n%s\nwant\n%s", c.line, &out, strings.Join(c.want, "\n"))
		}
	}
}

// commands are those of the blocks that look like a terminal.
func commands(text string) (out []command) {
	for _, m := range regexp.MustCompile("(?ms)^```console\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(m[1]) {
			line = strings.TrimRight(line, "\n")
			if c, ok := strings.CutPrefix(line, "$ "); ok {
				out = append(out, command{line: c})
			} else if len(out) > 0 {
				out[len(out)-1].want = append(out[len(out)-1].want, line)
			}
		}
	}
	return out
}

func matches(want []string, got string) bool {
	var pattern strings.Builder
	pattern.WriteString(`(?s)\A`)
	for _, line := range want {
		if line == "..." {
			pattern.WriteString(`.*`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(line)), `\.\.\.`, `[^\n]*`) + `\s*`)
	}
	return regexp.MustCompile(pattern.String() + `\z`).MatchString(strings.TrimSpace(got))
}

// checkConfig has promtool read the configuration of the documentation.
func checkConfig(t *testing.T, text string) {
	t.Helper()
	m := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no configuration", howto)
	}
	dir := t.TempDir()
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"prometheus.yml": []byte(m[1]), "ackfloor.rules.yml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(program(t, "promtool"), "check", "config", filepath.Join(dir, "prometheus.yml")).CombinedOutput(); err != nil {
		t.Errorf("promtool check config: %v\n%s", err, out)
	}
}
