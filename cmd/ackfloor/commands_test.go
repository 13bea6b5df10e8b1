//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
)

// code N COMMAND ARG... runs a command and fails unless it exits with N. What it writes is in the files out and err.
func code(ts *testscript.TestScript, neg bool, args []string) {
	cmd := scriptCommand(ts, args[1:])
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	_ = cmd.Run()
	ts.Check(os.WriteFile(ts.MkAbs("out"), out.Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("err"), err.Bytes(), 0o600))
	if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("%v exits with %s, not %s\n%s%s", args[1:], got, args[0], out.String(), err.String())
	}
}

// tty CODE COLUMNS ANSWER COMMAND ARG... runs a command on a terminal, types the answer when it asks, and fails unless it exits with that code. What
// stands on the terminal is in the file screen, without its carriage returns before line breaks.
func tty(ts *testscript.TestScript, neg bool, args []string) {
	columns, err := strconv.Atoi(args[1])
	ts.Check(err)
	cmd := scriptCommand(ts, args[3:])
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: uint16(columns)})
	ts.Check(err)
	defer terminal.Close()
	timer := time.AfterFunc(limit, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
	defer timer.Stop()
	var shown []byte
	for buf := make([]byte, 4096); ; {
		n, err := terminal.Read(buf)
		if err != nil { // one of its own, when the last process has closed the other side
			break
		}
		if shown = append(shown, buf[:n]...); args[2] != "" && bytes.Contains(shown, []byte("[y/N]")) {
			_, err := io.WriteString(terminal, strings.ReplaceAll(args[2]+"\n", "^C\n", "\x03"))
			ts.Check(err)
			args[2] = ""
		}
	}
	_ = cmd.Wait()
	ts.Check(os.WriteFile(ts.MkAbs("screen"), bytes.ReplaceAll(shown, []byte("\r\n"), []byte("\n")), 0o600))
	if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("%v exits with %s, not %s\n%s", args[3:], got, args[0], shown)
	}
}

func scriptCommand(ts *testscript.TestScript, args []string) *exec.Cmd {
	path := args[0]
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p := filepath.Join(dir, args[0]); !strings.Contains(path, "/") {
			if _, err := os.Stat(p); err == nil {
				path = p
			}
		}
	}
	cmd := exec.Command(path, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TZ", "TERM", "NO_COLOR", "COLUMNS", "NATS_URL", "NATS_USER", "NATS_PASSWORD", "NATS_CREDS", "NATS_PASSWORD_FILE",
		"WORKER_STREAM", "WORKER_DEAD_LETTER", "WORKER_CONSUMER", "WORKER_CONCURRENCY", "GOCOVERDIR"} {
		if v := ts.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	return cmd
}

// fields FILE NAME... prints the values of fields of lines of JSON, separated by blanks, into the file fields.
func fields(ts *testscript.TestScript, neg bool, args []string) {
	var out strings.Builder
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var v map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			ts.Fatalf("%q is no JSON: %v", line, err)
		}
		for i, name := range args[1:] {
			if i > 0 {
				out.WriteByte(' ')
			}
			out.Write(v[name])
		}
		out.WriteByte('\n')
	}
	ts.Check(os.WriteFile(ts.MkAbs("fields"), []byte(out.String()), 0o600))
}

// narrow COLUMNS FILE fails if a line is wider than that.
func narrow(ts *testscript.TestScript, neg bool, args []string) {
	columns, err := strconv.Atoi(args[0])
	ts.Check(err)
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		if w := lipgloss.Width(strings.TrimSuffix(line, "\n")); w > columns {
			ts.Fatalf("%d columns are wider than %d: %q", w, columns, line)
		}
	}
}

var times = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC \([0-9dhms]+ ago\)`)

// normal FILE puts TIME in the place of every time.
func normal(ts *testscript.TestScript, neg bool, args []string) {
	text := times.ReplaceAllString(ts.ReadFile(args[0]), "TIME")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// tabless FILE takes tabs for blanks.
func tabless(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(ts.ReadFile(args[0]), "\t", " ")), 0o600))
}

// clean FILE fails if there is anything in the file that a terminal obeys, or that hides text.
func clean(ts *testscript.TestScript, neg bool, args []string) {
	text := ts.ReadFile(args[0])
	for i, r := range text {
		if r != '\n' && (r == utf8.RuneError || unsafe(r)) {
			ts.Fatalf("%s holds %q at %d: %q", args[0], r, i, text[max(0, i-40):i])
		}
	}
}

func contextWithin(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
