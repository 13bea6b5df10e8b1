//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/internal/tape"
	"github.com/creack/pty"
)

// paper is a terminal that knows what the command uses of one: line feeds, going up, erasing.
type paper struct {
	mu     sync.Mutex
	lines  []string
	at     int // the line
	column int
	raw    strings.Builder
	ended  chan struct{}
}

var control = regexp.MustCompile("^\x1b\\[([0-9;]*)([A-Za-z])")

// read takes in what a process writes, until it has ended.
func (p *paper) read(from io.Reader) {
	defer close(p.ended)
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadString('\n') // no control sequence has a line break in it
		p.mu.Lock()
		p.raw.WriteString(line)
		p.take(line)
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *paper) take(s string) {
	for s != "" {
		for len(p.lines) <= p.at {
			p.lines = append(p.lines, "")
		}
		if m := control.FindStringSubmatch(s); m != nil {
			s = s[len(m[0]):]
			n, _ := strconv.Atoi(m[1])
			switch m[2] {
			case "A":
				p.at = max(0, p.at-n)
			case "H":
				p.at, p.column = 0, 0
			case "K":
				line := []rune(p.lines[p.at])
				p.lines[p.at] = string(line[:min(p.column, len(line))])
			case "J":
				p.lines = p.lines[:p.at]
			}
			continue
		}
		r := []rune(s)[0]
		s = s[len(string(r)):]
		switch r {
		case '\r':
			p.column = 0
		case '\n':
			p.at++
		default:
			line := []rune(p.lines[p.at] + strings.Repeat(" ", max(0, p.column-len([]rune(p.lines[p.at])))))
			p.lines[p.at] = string(append(append(line[:p.column:p.column], r), line[min(p.column+1, len(line)):]...))
			p.column++
		}
	}
}

func (p *paper) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// until waits for what holds.
func until(t *testing.T, what string, shown func() string, holds func(string) bool) {
	t.Helper()
	for end := time.Now().Add(limit); !holds(shown()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v:\n%s", what, limit, shown())
		}
	}
}

func says(words ...string) func(string) bool {
	return func(s string) bool {
		for _, w := range words {
			if !strings.Contains(s, w) {
				return false
			}
		}
		return true
	}
}

// onPaper starts a command on a terminal.
func onPaper(t *testing.T, cmd *exec.Cmd, rows, columns uint16) (*paper, *os.File) {
	t.Helper()
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	p := &paper{ended: make(chan struct{})}
	go p.read(terminal)
	timer := time.AfterFunc(2*limit, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { timer.Stop(); _ = cmd.Process.Kill(); <-p.ended; _ = terminal.Close() })
	return p, terminal
}

// ctrlC ends a watch on a terminal.
func ctrlC(t *testing.T, cmd *exec.Cmd, p *paper, terminal *os.File) {
	t.Helper()
	if _, err := terminal.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	if err := cmd.Wait(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
}

func TestWatchDrawsInPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.threeServices(); err != nil {
		t.Fatal(err)
	}
	cmd := r.cursors("EVENTS", "--watch", "--every", "100ms")
	p, terminal := onPaper(t, cmd, 40, 80)
	until(t, "the picture", p.text, says("email    █ █ ░ ░ ░ ░ ░ ░\n", ", every 100ms, Ctrl-C ends it\n"))
	if err := r.settleMessages("EVENTS", "email", 3); err != nil {
		t.Fatal(err)
	}
	until(t, "the next picture", p.text, says("email    █ █ █ █ █ ░ ░ ░\n"))
	if err := r.js.DeleteConsumer(t.Context(), "EVENTS", "billing"); err != nil {
		t.Fatal(err)
	}
	until(t, "the picture of two", p.text, func(s string) bool { return !strings.Contains(s, "billing") })
	if s := p.text(); strings.Count(s, "Stream EVENTS") != 1 || strings.Count(s, "\nemail ") != 2 {
		t.Errorf("it is not drawn in place:\n%s", s)
	}
	p.mu.Lock()
	if !strings.Contains(p.raw.String(), "\x1b[32m█") {
		t.Error("no colours on a terminal")
	}
	p.mu.Unlock()

	// another size, and one that the picture does not fit into
	if err := pty.Setsize(terminal, &pty.Winsize{Rows: 8, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	until(t, "the small picture", p.text, func(s string) bool {
		return strings.Contains(s, "more lines: make the") && len(strings.Split(s, "\n")) <= 8
	})
	ctrlC(t, cmd, p, terminal)
}

func TestNoColours(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.threeServices(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		env  string
		want string
	}{
		"--no-color": {[]string{"EVENTS", "--no-color"}, "", "█ █ ░"},
		"NO_COLOR":   {[]string{"EVENTS"}, "NO_COLOR=1", "█ █ ░"},
		"TERM=dumb":  {[]string{"EVENTS", "--watch"}, "TERM=dumb", "  EVENTS  email  ack floor 2,"},
		"LANG=C":     {[]string{"EVENTS", "--no-color"}, "LANG=C", "email    # # . . . . . .\n"},
	} {
		cmd := r.cursors(c.args...)
		cmd.Env = append(cmd.Env, c.env)
		p, terminal := onPaper(t, cmd, 40, 80)
		until(t, name, p.text, says(c.want))
		if strings.Contains(name, "dumb") {
			ctrlC(t, cmd, p, terminal)
		} else if <-p.ended; cmd.Wait() != nil {
			t.Errorf("%s: exit code %d", name, cmd.ProcessState.ExitCode())
		}
		if p.mu.Lock(); strings.Contains(p.raw.String(), "\x1b") {
			t.Errorf("%s: %q", name, p.raw.String())
		}
		p.mu.Unlock()
	}
}

// output is what a process has written so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// behind starts a command whose output goes into a pipe; stop sends it a signal, and it must end with 0.
func behind(t *testing.T, cmd *exec.Cmd) (out, said *output, stop func()) {
	t.Helper()
	out, said = &output{}, &output{}
	cmd.Stdout, cmd.Stderr = out, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(2*limit, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { timer.Stop(); _ = cmd.Process.Kill() })
	return out, said, func() {
		t.Helper()
		_ = cmd.Process.Signal(syscall.SIGINT)
		if err := cmd.Wait(); err != nil {
			t.Errorf("Ctrl-C: %v\n%s", err, said.text())
		}
	}
}

func TestWatchPrintsLinesOfWhatChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.threeServices(); err != nil {
		t.Fatal(err)
	}
	out, said, stop := behind(t, r.cursors("EVENTS", "--watch", "--every", "100ms"))
	until(t, "the first lines", out.text, says("  EVENTS  email  ack floor 2, delivered 2, outstanding 0, redelivered 0, unprocessed 6\n"))
	if err := r.settleMessages("EVENTS", "email", 1); err != nil {
		t.Fatal(err)
	}
	until(t, "the change", out.text, says("  EVENTS  email  ack floor 3, delivered 3, outstanding 0, redelivered 0, unprocessed 5\n"))
	if err := r.js.DeleteConsumer(t.Context(), "EVENTS", "audit"); err != nil {
		t.Fatal(err)
	}
	until(t, "the deletion", out.text, says("  EVENTS  audit  deleted\n"))
	stop()
	for line := range strings.Lines(out.text()) {
		if !regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  EVENTS  (audit|billing|email)  `).MatchString(line) {
			t.Errorf("%q", line)
		}
	}
	if n := strings.Count(out.text(), "  billing  "); n != 1 {
		t.Errorf("billing, which does not change, is printed %d times:\n%s", n, out.text())
	}
	if said.text() != "watching EVENTS every 100ms, Ctrl-C ends it\n" {
		t.Errorf("it says %q", said.text())
	}
}

func TestWatchSurvivesARestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.threeServices(); err != nil {
		t.Fatal(err)
	}
	cmd := r.cursors("EVENTS", "--watch", "--every", "100ms", "--timeout", "1s")
	p, terminal := onPaper(t, cmd, 40, 100)
	lines, saidOfLines, stopLines := behind(t, r.cursors("EVENTS", "--watch", "--every", "100ms", "--timeout", "1s"))
	objects, said, stopObjects := behind(t, r.cursors("EVENTS", "--watch", "--every", "100ms", "--timeout", "1s", "--json"))
	first := says("billing")
	until(t, "lines", lines.text, first)
	until(t, "objects", objects.text, first)
	until(t, "the picture", p.text, first)
	r.server.Stop()
	until(t, "lines: it is away", saidOfLines.text, says("; trying again\n"))
	until(t, "objects: it is away", said.text, says("; trying again\n"))
	until(t, "the picture: it is away", p.text, says("as of ", "; since ", "trying again", "billing  █ █ █ ▒ ▒ ▒ ░ ░\n"))
	time.Sleep(300 * time.Millisecond) // a few looks at nothing
	r.server.Start()
	until(t, "lines: it is back", saidOfLines.text, says("stream EVENTS answers again, after "))
	until(t, "objects: it is back", said.text, says("stream EVENTS answers again, after "))
	until(t, "the picture: it is back", p.text, func(s string) bool {
		return strings.Contains(s, "Ctrl-C ends it\n") && !strings.Contains(s, "trying again")
	})
	if _, err := r.js.Publish(t.Context(), "events.more", nil); err != nil {
		t.Fatal(err)
	}
	until(t, "lines", lines.text, says("  email  ack floor 2, delivered 2, outstanding 0, redelivered 0, unprocessed 7\n"))
	until(t, "objects", objects.text, says(`"last":9`))
	until(t, "the picture", p.text, says("email    █ █ ░ ░ ░ ░ ░ ░ ░\n"))
	ctrlC(t, cmd, p, terminal)
	stopLines()
	stopObjects()
	for line := range strings.Lines(objects.text()) {
		var shown tape.Tape
		if err := json.Unmarshal([]byte(line), &shown); err != nil || len(shown.Cursors) != 3 {
			t.Errorf("%v: %q", err, line)
		}
	}
	if n := strings.Count(saidOfLines.text(), "answers again"); n != 1 {
		t.Errorf("it is back %d times:\n%s", n, saidOfLines.text())
	}
}

// Ctrl-C is the ordinary end in the middle of a look, too, that nobody answers.
func TestWatchEndsInTheMiddleOfALook(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.threeServices(); err != nil {
		t.Fatal(err)
	}
	p := r.server.Proxy(t)
	out, said, stop := behind(t, r.cursors("EVENTS", "--watch", "--every", "100ms", "--server", p.URL()))
	until(t, "the first lines", out.text, says("billing"))
	p.Hold()
	defer p.Release()
	time.Sleep(300 * time.Millisecond) // a look is under way, and has its 5 s before it
	began := time.Now()
	stop()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	if strings.Contains(said.text(), "trying again") || strings.Contains(said.text(), "interrupted") {
		t.Errorf("it says %q", said.text())
	}
}
