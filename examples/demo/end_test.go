//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/internal/tape"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"github.com/nats-io/nats.go"
)

// output is what a process prints, while it does.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(40 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// up starts the demo without a terminal, and returns when all of it runs.
func up(t *testing.T, cmd *exec.Cmd) *output {
	t.Helper()
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second // a child that it left behind holds the pipe
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	eventually(t, "it is up: "+out.String(), func() bool { return strings.Contains(out.String(), "# three services read") })
	return out
}

// folder is that of a demo that start made.
func folder(cmd *exec.Cmd) string { return cmd.Args[4] }

// children are the processes that work in a demo's folder, by their programs' names. It looks where Linux tells.
func children(t *testing.T, dir string) map[string]int {
	t.Helper()
	if _, err := os.Stat("/proc/self/cwd"); err != nil {
		t.Skip("there is no way here to see what is left")
	}
	found := map[string]int{}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		cwd, err := os.Readlink(link)
		if err != nil || cwd != dir {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(link, "/proc/%d/cwd", &pid); err != nil {
			t.Fatal(err)
		}
		program, _ := os.Readlink(filepath.Join(filepath.Dir(link), "exe"))
		found[filepath.Base(program)] = pid
	}
	return found
}

const serverProgram = "demo.test"

// What the caller's environment says of databases, mail servers and NATS servers does not reach a child; the rest does.
func TestEnvironment(t *testing.T) {
	for _, v := range append(elsewhere, "DEMO_KEPT=1") {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	env := strings.Join(environment("WORKER_HTTP_ADDR=own"), "\n") + "\n"
	for _, v := range elsewhere {
		if strings.Contains(env, v+"\n") {
			t.Errorf("%s is passed on", v)
		}
	}
	if !strings.Contains(env, "DEMO_KEPT=1\n") || !strings.HasSuffix(env, "WORKER_HTTP_ADDR=own\n") {
		t.Errorf("something is missing in %s", env)
	}
}

// A second demo in a folder that is in use says so and leaves it alone; the status pages answer; when the terminal is closed, everything drains.
func TestSecondDemoAndHangUp(t *testing.T) {
	t.Parallel()
	cmd := start(t, "-plain")
	out := up(t, cmd)
	for _, m := range regexp.MustCompile(`status page of \w+ +(http://\S+)`).FindAllStringSubmatch(out.String(), -1) {
		eventually(t, m[1]+" answers", func() bool {
			resp, err := http.Get(m[1])
			if err != nil {
				return false // it listens a moment later than the worker works
			}
			_ = resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		})
	}
	second := start(t, "-plain", "-dir", folder(cmd))
	said, err := second.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != shutdown.ExitUnavailable || !strings.Contains(string(said), "another demo holds") {
		t.Errorf("a second demo: %v, %s", err, said)
	}
	if info, err := os.Stat(filepath.Join(folder(cmd), "log")); err != nil || info.Size() == 0 {
		t.Errorf("the folder of the first was emptied: %v", err)
	}
	_ = cmd.Process.Signal(syscall.SIGHUP)
	_ = cmd.Process.Signal(syscall.SIGHUP) // of the shell and of the system
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "stopping: the services drain") {
		t.Errorf("hung up, it ended with %v\n%s", err, out)
	}
	if left := children(t, folder(cmd)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A second signal ends everything at once, also what does not drain, and the folder of the programs is removed.
func TestSecondSignalLeavesNothing(t *testing.T) {
	t.Parallel()
	cmd, temp := start(t, "-plain"), t.TempDir()
	cmd.Args = append(cmd.Args[:1], cmd.Args[2:]...)
	cmd.Args = append(cmd.Args[:1], cmd.Args[2:]...) // without -bin, so that it builds
	cmd.Env = append(cmd.Env, "TMPDIR="+temp)
	dir := cmd.Args[2]
	out := up(t, cmd)
	stuck := children(t, dir)["email"]
	_ = syscall.Kill(stuck, syscall.SIGSTOP)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	eventually(t, "it is stopping", func() bool { return strings.Contains(out.String(), "stopping:") })
	time.Sleep(50 * time.Millisecond) // above what counts as the same signal
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if exit, ok := errors.AsType[*exec.ExitError](cmd.Wait()); !ok || exit.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("it ended with %v\n%s", exit, out)
	}
	if left := children(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if built, _ := filepath.Glob(filepath.Join(temp, "ackfloor-demo-*")); len(built) > 0 {
		t.Errorf("left behind: %v", built)
	}
}

// Killed, it can't stop anything: its children see that it has gone, and end. What they held comes back to the next ones: what they print has no reader, so they may not get to drain.
func TestKilledDemoLeavesNoProcess(t *testing.T) {
	t.Parallel()
	cmd := start(t, "-plain", "-rate", "0")
	out := up(t, cmd)
	if n := len(children(t, folder(cmd))); n != 4 {
		t.Fatalf("%d children\n%s", n, out)
	}
	time.Sleep(1500 * time.Millisecond) // the services have nothing left to do, or to print, on which they would end
	_ = cmd.Process.Kill()
	killed := time.Now()
	_ = cmd.Wait()
	eventually(t, "all of them end", func() bool { return len(children(t, folder(cmd))) == 0 })
	if took := time.Since(killed); took > leaveLimit-2*time.Second {
		t.Errorf("it took %v: the services were not told", took)
	}
}

// A service that has ended though nobody had asked for that is told of in the end, and is an error. -for counts from when all is up.
func TestServiceThatEndsByItself(t *testing.T) {
	t.Parallel()
	began := time.Now()
	cmd := start(t, "-plain", "-for", "2s")
	out := up(t, cmd)
	_ = syscall.Kill(children(t, folder(cmd))["analytics"], syscall.SIGKILL)
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || !strings.Contains(out.String(), "analytics was ended by a signal that is not the demo's") {
		t.Errorf("it ended with %v\n%s", err, out)
	}
	if time.Since(began) < 2*time.Second || strings.Count(out.String(), "EVENTS ") < 2 {
		t.Errorf("it ran for less than it was to\n%s", out)
	}
}

// q while the server is still stopping: it is waited for, started again, and the services drain.
func TestQuitWhileServerStops(t *testing.T) {
	t.Parallel()
	cmd := start(t)
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	screen := vt.NewSafeEmulator(80, 24)
	go func() { _, _ = io.Copy(screen, terminal) }()
	go func() { _, _ = io.Copy(terminal, screen) }()
	sees(t, screen, "Stream EVENTS: ")
	sees(t, screen, "http://127.0.0.1:")
	server := children(t, folder(cmd))[serverProgram]
	_ = syscall.Kill(server, syscall.SIGSTOP)
	fmt.Fprint(terminal, "4s")
	sees(t, screen, "4 server     stopping")
	fmt.Fprint(terminal, "q")
	time.Sleep(500 * time.Millisecond)
	_ = syscall.Kill(server, syscall.SIGCONT)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v\n%s", err, shown(screen))
	}
	log, err := os.ReadFile(filepath.Join(folder(cmd), "log"))
	if err != nil || strings.Count(string(log), "listening on") != 2 || strings.Count(string(log), "stopped: ") != 3 || strings.Contains(string(log), "the server is gone, the cursor") {
		t.Errorf("%v\n%s", err, log)
	}
}

// Started while it is about to end, a process is waited for; after the demo's end none is started.
func TestStartWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "slow")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntrap 'sleep 0.3; exit 0' TERM\necho ready\nwhile :; do sleep 0.05; done\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := &process{name: "slow", path: script, dir: dir, log: io.Discard}
	ready := func() bool { return p.look().last == "ready" }
	if err := p.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs", ready)
	p.signal(syscall.SIGTERM)
	p.said("")
	if err := p.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l := p.look(); l.starts != 2 || !l.running {
		t.Errorf("it was started %d times", l.starts)
	}
	eventually(t, "it runs again", ready)
	p.signal(syscall.SIGTERM)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.start(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for it ends with %v", err)
	}
	if !p.stop(10 * time.Second) {
		t.Error("it had to be killed")
	}
	if err := p.start(t.Context()); !errors.Is(err, errOver) {
		t.Errorf("started after the end: %v", err)
	}
	if err := p.wrong(); err != nil {
		t.Errorf("it was told to end, and yet: %v", err)
	}
}

// A service's own exit code is told, with the last that it said.
func TestOwnExitCode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "broken")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho out of paper\nexit 78\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := &process{name: "broken", path: script, dir: dir, log: io.Discard}
	if err := p.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !p.ended(10*time.Second) || p.wrong() == nil || p.wrong().Error() != "broken was not told to end, and ended with 78: out of paper" {
		t.Errorf("%v", p.wrong())
	}
}

// A schedule that does not come to what it waits for is an error, unless it was ended.
func TestScheduleThatIsNotDone(t *testing.T) {
	t.Parallel()
	d := &demo{nc: &nats.Conn{}} // never connected
	never := []step{{says: "work", do: func(context.Context, *demo) error { return nil }, watch: 600 * time.Millisecond, until: func(*tape.Tape) bool { return false }}}
	if err := d.schedule(t.Context(), never, &recording{io.Discard}); err == nil || shutdown.ExitCode(err) != 1 {
		t.Errorf("not done, it ends with %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := d.schedule(ctx, never, &recording{io.Discard}); err != nil {
		t.Errorf("ended, it ends with %v", err)
	}
	if settled(&tape.Tape{}) {
		t.Error("a tape without the services' cursors counts as settled")
	}
}
