//go:build unix

package shutdown_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
)

const (
	sigint  = syscall.SIGINT
	sigterm = syscall.SIGTERM
)

// child is a process that plays one of the programs.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *bufio.Scanner
	stderr bytes.Buffer
	lines  []string
}

// begin starts a program; expect("ready") tells when it takes signals.
func begin(t *testing.T, program string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0])}
	// The race detector sleeps a second before every exit unless told otherwise.
	c.cmd.Env = append(os.Environ(), "SHUTDOWN_TEST_PROGRAM="+program, "GORACE=atexit_sleep_ms=0")
	c.cmd.Stderr = &c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(20*time.Second, func() { _ = c.cmd.Process.Kill() })
	t.Cleanup(func() { limit.Stop() })
	return c
}

// expect reads lines up to one that begins with prefix.
func (c *child) expect(prefix string) *child {
	c.t.Helper()
	for c.out.Scan() {
		c.lines = append(c.lines, c.out.Text())
		if strings.HasPrefix(c.out.Text(), prefix) {
			return c
		}
	}
	_ = c.cmd.Wait()
	c.t.Fatalf("the process ended (%v) before it said %q; it said %q and %q", c.cmd.ProcessState, prefix, c.lines, &c.stderr)
	return nil
}

func (c *child) signal(s syscall.Signal) *child {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
	return c
}

// lives fails the test if the process ends within d, and then ends it by one more signal.
func (c *child) lives(d time.Duration, otherwise string) {
	c.t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.end()
	}()
	select {
	case <-ended:
		c.t.Errorf("%s: %v", otherwise, c.cmd.ProcessState)
	case <-time.After(d):
		c.signal(sigterm)
		<-ended
	}
}

// end waits for the process and returns how it ended and how long that took.
func (c *child) end() (syscall.WaitStatus, time.Duration) {
	c.t.Helper()
	start := time.Now()
	for c.out.Scan() {
		c.lines = append(c.lines, c.out.Text())
	}
	_ = c.cmd.Wait()
	return c.cmd.ProcessState.Sys().(syscall.WaitStatus), time.Since(start)
}

func (c *child) exits(code int) {
	c.t.Helper()
	if status, _ := c.end(); !status.Exited() || status.ExitStatus() != code {
		c.t.Errorf("%v, want exit code %d; it said %q and %q", c.cmd.ProcessState, code, c.lines, &c.stderr)
	}
}

func TestFirstSignalDrainsInOrder(t *testing.T) {
	for s, text := range map[syscall.Signal]string{sigint: "interrupt", sigterm: "terminated"} {
		c := begin(t, "drain").expect("ready").signal(s)
		c.exits(0)
		cause := "stopping: shutdown: signal received: " + text
		want := []string{"ready", "worker " + cause, "worker stopped", "admin " + cause, "admin stopped"}
		if !slices.Equal(c.lines, want) {
			t.Errorf("%v: it said %q, want %q", s, c.lines, want)
		}
		if c.stderr.Len() > 0 {
			t.Errorf("%v: stderr has %q", s, &c.stderr)
		}
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	for _, tc := range []struct {
		first, second syscall.Signal
		code          int
	}{{sigterm, sigterm, 143}, {sigint, sigint, 130}, {sigterm, sigint, 130}, {sigint, sigterm, 143}} {
		// The fastest of three: a machine that is busy with other tests delays one, a process that waits delays all.
		fastest := time.Hour
		for range 3 {
			c := begin(t, "stuck").expect("ready").signal(tc.first).expect("stopping")
			time.Sleep(20 * time.Millisecond) // two of a kind at once are one
			c.signal(tc.second)
			status, took := c.end()
			if !status.Exited() || status.ExitStatus() != tc.code {
				t.Fatalf("%v, %v: %v, want exit code %d", tc.first, tc.second, c.cmd.ProcessState, tc.code)
			}
			if fastest = min(fastest, took); fastest < 100*time.Millisecond {
				break
			}
		}
		if fastest >= 100*time.Millisecond {
			t.Errorf("%v, %v: ended after %v, want under 100 ms", tc.first, tc.second, fastest)
		}
	}
}

// Two signals of a kind at once are one: what signals a process and then its group sends two.
func TestTheSameSignalTwiceAtOnce(t *testing.T) {
	c := begin(t, "stuck").expect("ready").signal(sigterm).signal(sigterm).expect("stopping")
	c.lives(100*time.Millisecond, "they ended it")
}

// A process that is stuck ends by the second signal only: without this the test above could pass for another reason.
func TestFirstSignalAloneWaits(t *testing.T) {
	c := begin(t, "stuck").expect("ready").signal(sigterm).expect("stopping")
	c.lives(300*time.Millisecond, "the first signal ended it")
}

func TestServiceEndsInOrder(t *testing.T) {
	c := begin(t, "service").expect("ready alive").signal(sigterm)
	c.exits(0)
	if want := []string{"ready alive", "draining alive", "server stopped <nil>"}; !slices.Equal(c.lines, want) {
		t.Errorf("it said %q, want %q", c.lines, want)
	}
}

func TestSignalsAreLeftAlone(t *testing.T) {
	for _, program := range []string{"unnotified", "given back"} {
		for _, s := range []syscall.Signal{sigint, sigterm} {
			status, _ := begin(t, program).expect("ready").signal(s).end()
			if !status.Signaled() || status.Signal() != s {
				t.Errorf("%s: ended with status %#x, want killed by %v", program, status, s)
			}
		}
	}
}

func TestSignalsAreCountedAfterParentEnded(t *testing.T) {
	c := begin(t, "parent ended").expect("ready context canceled").signal(sigint).expect("still here").signal(sigint)
	c.expect("exit 130").exits(130)
}

func TestMainTellsAndExits(t *testing.T) {
	for _, tc := range []struct {
		program string
		code    int
		out     []string
		stderr  []string
	}{
		{"finishes", 0, []string{"admin stopping: " + shutdown.ErrFinished.Error(), "admin stopped"}, nil},
		{"fails", 78, []string{"admin stopping: shutdown: worker: code 78", "admin stopped"}, []string{"shutdown: worker: code 78\n"}},
		{"panics", 1, []string{"admin stopping: shutdown: worker: panic: wires crossed", "admin stopped"},
			[]string{"shutdown: worker: panic: wires crossed\n", "child_test.go:"}},
	} {
		c := begin(t, tc.program)
		c.exits(tc.code)
		if !slices.Equal(c.lines, tc.out) {
			t.Errorf("%s: it said %q, want %q", tc.program, c.lines, tc.out)
		}
		for _, part := range tc.stderr {
			if !strings.Contains(c.stderr.String(), part) {
				t.Errorf("%s: stderr lacks %q: %q", tc.program, part, &c.stderr)
			}
		}
		if tc.stderr == nil && c.stderr.Len() > 0 {
			t.Errorf("%s: stderr has %q", tc.program, &c.stderr)
		}
	}
}

// In this process, where goleak sees at the end that stop leaves no goroutine, with a real signal and without.
func TestNotifyCause(t *testing.T) {
	_, unused := shutdown.Notify(t.Context(), nil)
	unused()
	codes := make(chan int, 1)
	ctx, stop := shutdown.Notify(t.Context(), func(code int) { codes <- code })
	defer stop()
	for i := range 2 {
		if err := syscall.Kill(os.Getpid(), sigterm); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			<-ctx.Done()
			time.Sleep(20 * time.Millisecond) // two of a kind at once are one
		}
	}
	received, ok := errors.AsType[*shutdown.SignalError](context.Cause(ctx))
	if !ok || received.Signal != sigterm {
		t.Errorf("the cause is %v", context.Cause(ctx))
	}
	if code := <-codes; code != 143 {
		t.Errorf("exit(%d), want 143", code)
	}
}
