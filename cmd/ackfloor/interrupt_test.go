//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A replay that is interrupted says how many were done and what is left; run again it goes on, and in the end every letter has one replay.
// It can't be over before the signal comes: it writes a line a letter into a pipe that holds a page, and nobody reads on.
func TestInterruptedReplay(t *testing.T) {
	t.Parallel()
	const letters = 300
	r := newRig(t)
	r.many(t, letters)

	cmd := r.command("replay", "--all", "--yes", "--json")
	var said bytes.Buffer
	cmd.Stderr = &said
	lines := startSlowly(t, cmd)
	for range 3 {
		lines.Scan()
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	last := lines.Text()
	done := 3
	for lines.Scan() {
		last = lines.Text()
		done++
	}
	_ = cmd.Wait()
	done-- // the summary
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d, not 130", code)
	}
	var s summary
	if err := json.Unmarshal([]byte(last), &s); err != nil || s.Result != resultSummary {
		t.Fatalf("the last line is %q: %v", last, err)
	}
	if s.Replayed != done || s.Left != letters-done || done < 3 || done == letters {
		t.Errorf("%d lines, summary %+v", done, s)
	}
	if stored := r.stored(t, letters); stored != done {
		t.Errorf("%d replays are stored, it says %d", stored, done)
	}
	if text := said.String(); !strings.Contains(text, "Run it again to go on: no letter is replayed twice.\ninterrupted\n") {
		t.Errorf("it says %q", text)
	}

	out, err := r.command("replay", "--all", "--yes", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err := json.Unmarshal([]byte(all[len(all)-1]), &s); err != nil || s.Replayed != letters-done || s.AlreadyReplayed != 0 || s.Left != 0 {
		t.Errorf("run again: %+v, %v", s, err)
	}
	if stored := r.stored(t, letters); stored != letters {
		t.Errorf("%d replays of %d letters", stored, letters)
	}
}

// An interruption in the middle of a request does not leave its letter in doubt: the answer is waited for, and counted.
func TestInterruptedRequest(t *testing.T) {
	t.Parallel()
	const letters = 100
	r := newRig(t)
	r.many(t, letters)
	p := r.server.Proxy(t)
	cmd := r.command("replay", "--all", "--yes", "--json", "--server", p.URL())
	lines := startSlowly(t, cmd)
	lines.Scan()
	p.Hold()
	time.AfterFunc(50*time.Millisecond, func() { // by now its lines are read, and it waits for an answer
		_ = cmd.Process.Signal(syscall.SIGINT)
		time.AfterFunc(50*time.Millisecond, p.Release)
	})
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	_ = cmd.Wait()
	var s summary
	if err := json.Unmarshal([]byte(last), &s); err != nil || s.Failed > 0 || s.Left == 0 || s.Replayed != r.stored(t, letters) {
		t.Errorf("%d replays are stored; the last line is %q", r.stored(t, letters), last)
	}
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d, not 130", code)
	}
}

// A server that goes away in the middle ends a replay, which says what is left. It goes on when the server is back.
func TestServerGoesAway(t *testing.T) {
	t.Parallel()
	const letters = 100
	r := newRig(t)
	r.many(t, letters)
	p := r.server.Proxy(t)
	cmd := r.command("replay", "--all", "--yes", "--json", "--timeout", "500ms", "--server", p.URL())
	var said bytes.Buffer
	cmd.Stderr = &said
	lines := startSlowly(t, cmd)
	lines.Scan()
	p.Hold()
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	_ = cmd.Wait()
	p.Release()
	var s summary
	if err := json.Unmarshal([]byte(last), &s); err != nil || s.Replayed == 0 || s.Left == 0 || s.Replayed+s.Left != letters {
		t.Errorf("the last line is %q", last)
	}
	if code := cmd.ProcessState.ExitCode(); code != 69 {
		t.Errorf("exit code %d, not 69\n%s", code, said.String())
	}
	if code, out := outcome(t, r.command("replay", "--all", "--yes")); code != 0 || r.stored(t, letters) != letters {
		t.Errorf("run again: exit code %d, %d replays\n%s", code, r.stored(t, letters), out)
	}
}

// startSlowly starts a command that goes on only as its lines are read: they go into a pipe that holds a page.
func startSlowly(t *testing.T, cmd *exec.Cmd) *bufio.Scanner {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close() })
	const setPipeSize = 1031 // F_SETPIPE_SZ
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, write.Fd(), setPipeSize, 4096); errno != 0 {
		t.Fatal(errno)
	}
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	timer := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { timer.Stop() })
	return bufio.NewScanner(read)
}
