//go:build unix

package examples_test

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
)

// The tutorial says 4222 and a folder that is always the same; the test uses a free port and a temporary folder.
const (
	tutorial      = "../docs/tutorial.md"
	tutorialAddr  = "127.0.0.1:4222"
	tutorialStore = "/tmp/ackfloor-tutorial"
	lastSentence  = "**No message read twice, none skipped.**"
	interrupt     = "^C"
	stepLimit     = 2 * time.Minute // one command; the first go run builds
)

// TestTutorial runs docs/tutorial.md: every command in its console blocks, in a shell, in order, and compares what it
// prints with the lines below it. Then it asks the server whether the tutorial's last sentence is true.
func TestTutorial(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(tutorial)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), lastSentence) {
		t.Errorf("%s does not say %q", tutorial, lastSentence)
	}
	r := newReader(t)
	for _, b := range fencedBlocks(t, string(text)) {
		switch b.kind {
		case "console":
			for _, s := range steps(b) {
				r.follow(t, s)
			}
		case "go":
			r.sameAsFile(t, b, "first/main.go")
		default:
			t.Fatalf("%s:%d: a block of %q: this test does not know how to check it", tutorial, b.line, b.kind)
		}
	}
	r.noneTwiceNoneSkipped(t)
}

// block is a fenced block of the tutorial.
type block struct {
	kind string
	line int // of its first line, from 1
	text []string
}

func fencedBlocks(t *testing.T, text string) (all []block) {
	t.Helper()
	var open *block
	for i, line := range strings.Split(text, "\n") {
		kind, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &block{kind: kind, line: i + 2}
		case fence:
			all, open = append(all, *open), nil
		case open != nil:
			open.text = append(open.text, line)
		case strings.HasPrefix(strings.TrimSpace(line), "```"), strings.HasPrefix(line, "    "):
			t.Fatalf("%s:%d: a block that is indented: this test does not see it", tutorial, i+1)
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block has no end", tutorial, open.line)
	}
	return all
}

// step is a command, or Ctrl-C, and the output that the tutorial shows for it.
type step struct {
	line    int
	command string // or interrupt
	output  []string
}

func steps(b block) (all []step) {
	for i, line := range b.text {
		command, isCommand := strings.CutPrefix(line, "$ ")
		if isCommand || line == interrupt {
			all = append(all, step{line: b.line + i, command: command})
		} else if len(all) > 0 {
			last := &all[len(all)-1]
			last.output = append(last.output, line)
		} else {
			all = append(all, step{line: b.line, command: "echo a block begins with a command or with ^C >&2; false"})
		}
	}
	return all
}

// reader does what a reader of the tutorial does, in two terminals.
type reader struct {
	addr, store string
	env         []string
	exported    string // a file with what the shell has exported
	tools       map[string]string

	server *example // nil while it is stopped
}

func newReader(t *testing.T) *reader {
	t.Helper()
	dir := t.TempDir()
	r := &reader{
		addr: freeAddr(t), store: filepath.Join(dir, "store"), exported: filepath.Join(dir, "exported"),
		tools: map[string]string{"nats-server": testutil.ServerBinary(t), "nats": testutil.NatsCommand(t)},
	}
	for name, path := range r.tools {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(r.exported, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.env = append(cleanEnv(),
		"PATH="+dir+string(filepath.ListSeparator)+os.Getenv("PATH"),
		"NATS_URL=nats://"+r.addr,
		"WORKER_LOG_FORMAT=console", // as in a terminal
		"XDG_CONFIG_HOME="+dir,      // no context of the nats command
		"GOWORK=", "GOFLAGS=",
	)
	return r
}

func (r *reader) follow(t *testing.T, s step) {
	t.Helper()
	words := append(strings.Fields(s.command), "")
	switch {
	case s.command == interrupt:
		r.stopServer(t, s)
	case strings.HasPrefix(s.command, "go install "):
		r.sameAsTool(t, s, words[2])
	case words[0] == "nats-server" && words[1] != "--version":
		r.startServer(t, s)
	default:
		r.run(t, s)
	}
}

// run runs a command in a shell that goes on with what the ones before have exported.
func (r *reader) run(t *testing.T, s step) {
	t.Helper()
	limit, cancel := context.WithTimeout(t.Context(), stepLimit)
	defer cancel()
	cmd := exec.CommandContext(limit, "sh", "-c", `. "$0"; eval "$1"; code=$?; export -p >"$0"; exit $code`, r.exported, s.command)
	cmd.Dir, cmd.Env = "..", r.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// What a command has started ends with it: go run would leave its program behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	if limit.Err() != nil {
		t.Fatalf("%s:%d: $ %s: it does not end, after %v\n%s", tutorial, s.line, s.command, stepLimit, out.String())
	}
	r.compare(t, s, out.String(), true)
	if err != nil {
		t.Fatalf("%s:%d: $ %s: %v\n%s", tutorial, s.line, s.command, err, out.String())
	}
}

// startServer starts the server as the tutorial does, but on the test's port and store, and waits for the output that is shown.
func (r *reader) startServer(t *testing.T, s step) {
	t.Helper()
	if r.server != nil {
		t.Fatalf("%s:%d: the server runs already", tutorial, s.line)
	}
	if !strings.Contains(s.command, tutorialStore) {
		t.Fatalf("%s:%d: $ %s: it does not store in %s", tutorial, s.line, s.command, tutorialStore)
	}
	host, port, _ := strings.Cut(r.addr, ":")
	command := "exec " + strings.ReplaceAll(s.command, tutorialStore, r.store) + " -a " + host + " -p " + port
	e := &example{name: "nats-server", cmd: exec.Command("sh", "-c", command), done: make(chan struct{})}
	e.cmd.Stdout, e.cmd.Stderr, e.cmd.Env = e, e, r.env
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = e.cmd.Wait(); close(e.done) }()
	t.Cleanup(func() {
		_ = e.cmd.Process.Kill()
		<-e.done
	})
	r.server = e
	for end := time.Now().Add(soon); time.Now().Before(end) && !matches(s.output, r.plain(e.output()), false); time.Sleep(poll) {
	}
	r.compare(t, s, e.output(), false)
}

func (r *reader) stopServer(t *testing.T, s step) {
	t.Helper()
	if r.server == nil {
		t.Fatalf("%s:%d: ^C, but no server runs", tutorial, s.line)
	}
	before := len(r.server.output())
	r.server.signal(t, syscall.SIGINT)
	r.server.exits(t, 0)
	r.compare(t, s, r.server.output()[before:], true)
	r.server = nil
}

// compare fails the test unless the output is what the tutorial shows; whole says that nothing may follow.
func (r *reader) compare(t *testing.T, s step, output string, whole bool) {
	t.Helper()
	if !matches(s.output, r.plain(output), whole) {
		t.Fatalf("%s:%d: $ %s\nthe tutorial shows:\n%s\n\nthe command prints:\n%s",
			tutorial, s.line, s.command, strings.Join(s.output, "\n"), output)
	}
}

// plain puts the tutorial's port and store in the place of the test's.
func (r *reader) plain(output string) string {
	return strings.NewReplacer(r.addr, tutorialAddr, r.store, tutorialStore).Replace(output)
}

// sameAsTool checks that an installation is of the program, in the version, with which the test runs the tutorial.
func (r *reader) sameAsTool(t *testing.T, s step, what string) {
	t.Helper()
	for _, binary := range r.tools {
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		if what == info.Path+"@"+info.Main.Version {
			return
		}
	}
	t.Fatalf("%s:%d: $ %s: the test runs neither program in this version", tutorial, s.line, s.command)
}

// sameAsFile checks that Go code in the tutorial is the file, from its package line on.
func (r *reader) sameAsFile(t *testing.T, b block, path string) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(file), "\npackage ")
	if got := strings.Join(b.text, "\n") + "\n"; got != "package "+code {
		t.Fatalf("%s:%d: the code is not that of %s", tutorial, b.line, path)
	}
}

// noneTwiceNoneSkipped asks the server itself: as many deliveries as messages, all of them acknowledged.
func (r *reader) noneTwiceNoneSkipped(t *testing.T) {
	t.Helper()
	if r.server == nil {
		r.startServer(t, step{command: "nats-server -js -sd " + tutorialStore, output: []string{"...", "... Server is ready"}})
	}
	js, leave := place{addr: r.addr}.jetStream(t)
	defer leave()
	stream, err := js.Stream(t.Context(), "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	c, err := stream.Consumer(t.Context(), "worker")
	if err != nil {
		t.Fatal(err)
	}
	messages, i := stream.CachedInfo().State.LastSeq, c.CachedInfo()
	if messages != 3 || i.AckFloor.Stream != messages || i.Delivered.Consumer != messages || i.NumAckPending != 0 || i.NumPending != 0 || i.NumRedelivered != 0 {
		t.Errorf("%d messages, %d deliveries, floor %d, outstanding %d, pending %d, redelivered %d; want 3, 3, 3, 0, 0, 0",
			messages, i.Delivered.Consumer, i.AckFloor.Stream, i.NumAckPending, i.NumPending, i.NumRedelivered)
	}
}

// patterns find what is different each time, and runs of blanks.
var patterns = []struct {
	re *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`(\d{4}[-/]\d\d[-/]\d\d )?\d\d:\d\d:\d\d(\.\d+)?`), "TIME"},
	{regexp.MustCompile(`(?m)^\[\d+\]`), "[PID]"},
	{regexp.MustCompile(`[\dhm.]+(ns|µs|ms|s) ago`), "SOME TIME ago"},
	{regexp.MustCompile(`"took": "[^"]*"`), `"took": SOME TIME`},
	{regexp.MustCompile(`(Restored .*) in \S+`), "$1 in SOME TIME"},
	{regexp.MustCompile(`[ \t]+`), " "},
	{regexp.MustCompile(`(?m)^ | $`), ""},
}

func normal(s string) string {
	for _, p := range patterns {
		s = p.re.ReplaceAllString(s, p.by)
	}
	return s
}

// matches tells whether an output is what the tutorial shows. There "..." stands for anything within a line, and for any lines
// where it is a line. An output that is not whole may go on.
func matches(shown []string, output string, whole bool) bool {
	var re strings.Builder
	re.WriteString(`\A`)
	for line := range strings.SplitSeq(normal(strings.Join(shown, "\n")), "\n") {
		switch {
		case line == "...":
			re.WriteString(`(.*\n)*?`)
		case line != "" || len(shown) > 0:
			re.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*?`) + `\n`)
		}
	}
	if whole {
		re.WriteString(`\z`)
	}
	output = normal(output)
	if output != "" && !strings.HasSuffix(output, "\n") {
		output += "\n"
	}
	return regexp.MustCompile(re.String()).MatchString(output)
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		shown, output string
		want          bool
	}{
		{"", "", true},
		{"", "anything\n", false},
		{"a", "a\n", true},
		{"a", "b\n", false},
		{"a", "a\nb\n", false},
		{"a\n...", "a\nb\nc\n", true},
		{"...\nc", "a\nb\nc\n", true},
		{"...\nc", "a\nb\n", false},
		{"a ... c", "a b c\n", true},
		{"a ... c", "a b d\n", false},
		{"Floor: 2 Last Ack: 1.03s ago", "  Floor:   2 Last Ack: 12ms ago\n", true},
		{"Floor: 2 Last Ack: 1.03s ago", "  Floor:   3 Last Ack: 12ms ago\n", false},
		{"[1] 2026/11/30 11:38:34.0 up", "[22] 2027/01/01 00:00:00.123 up\n", true},
		{"11:38:35 Published 16 bytes", "00:00:00 Published 17 bytes\n", false},
	} {
		var shown []string
		if c.shown != "" {
			shown = strings.Split(c.shown, "\n")
		}
		if got := matches(shown, c.output, true); got != c.want {
			t.Errorf("%d: matches(%q, %q) = %v", i, c.shown, c.output, got)
		}
	}
	if !matches([]string{"ready"}, "ready\nmore\n", false) || matches([]string{"ready"}, "starting\n", false) {
		t.Error("an output that goes on")
	}
}
