package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/testutil"
)

// child is the program that a test's child process runs, by its name. It appends "start <sequence>" and "end <sequence>" to the
// file OUT and is otherwise configured by its environment.
func child(kind string) {
	out, err := os.OpenFile(os.Getenv("OUT"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	work, _ := time.ParseDuration(os.Getenv("WORK"))
	inner := testutil.Sleep(work)
	if os.Getenv("STUBBORN") != "" {
		inner = testutil.Stubborn(work)
	}
	h := ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		fmt.Fprintln(out, "start", m.Sequence, m.Consumer)
		if fmt.Sprint(m.Sequence) == os.Getenv("POISON") {
			os.Exit(137)
		}
		if fmt.Sprint(m.Sequence) == os.Getenv("SLOW") {
			return testutil.Sleep(time.Hour).Handle(ctx, m)
		}
		if err := inner.Handle(ctx, m); err != nil {
			return err
		}
		_, err := fmt.Fprintln(out, "end", m.Sequence, m.Consumer)
		return err
	})
	switch kind {
	case "main":
		os.Exit(run(inMode(h), nil, os.Stdout, os.Stderr, nil))
	case "keyed":
		keyedChild(out)
	case "parts": // what runs beside the Runner of Main
		Main(h, func(ctx context.Context, r *Runner) error {
			fmt.Fprintln(out, "part", 1, r.Status().State)
			<-ctx.Done()
			fmt.Fprintln(out, "over", 0, r.Status().State)
			return nil
		}, func(ctx context.Context, r *Runner) error {
			if os.Getenv("BROKEN") != "" {
				return errors.New("the part is broken")
			}
			<-ctx.Done()
			return nil
		})
	case "bare": // a Runner by itself leaves the process's signals alone
		cfg, err := FromEnv("")
		exitOn(err)
		nc, err := Connect(context.Background(), cfg.Connection)
		exitOn(err)
		r, err := New(nc, cfg, h)
		exitOn(err)
		exitOn(r.Run(context.Background()))
	case "service": // an http.Server and two Runners
		cfg, err := FromEnv("")
		exitOn(err)
		nc, err := Connect(context.Background(), cfg.Connection)
		exitOn(err)
		a, err := New(nc, cfg, h)
		exitOn(err)
		cfg.Consumer += "2"
		b, err := New(nc, cfg, h)
		exitOn(err)
		note := func(name string, run func(context.Context) error) shutdown.Part {
			return shutdown.Part{Name: name, Run: func(ctx context.Context) error {
				err := run(ctx)
				fmt.Fprintln(out, "over", 0, name)
				return err
			}}
		}
		web := shutdown.HTTP("web", &http.Server{Addr: "127.0.0.1:0"}, time.Second)
		shutdown.Main(note("runners", func(ctx context.Context) error { return RunAll(ctx, a, b) }), note("web", web.Run))
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(shutdown.ExitCode(err))
	}
}

// kid is a child process that works on the rig's consumer.
type kid struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    string
	stderr *strings.Builder
	ended  chan struct{}
}

// spawn starts a child. Several may write to the same file out; "" makes one of its own.
func spawn(t *testing.T, kind, url, out string, env ...string) *kid {
	t.Helper()
	if out == "" {
		out = filepath.Join(t.TempDir(), "out")
	}
	k := &kid{t: t, cmd: exec.Command(os.Args[0]), out: out, stderr: &strings.Builder{}, ended: make(chan struct{})}
	k.cmd.Env = append(os.Environ(), "ACKFLOOR_TEST_CHILD="+kind, "OUT="+out, "NATS_URL="+url,
		"WORKER_STREAM="+rigStream, "WORKER_CONSUMER="+rigConsumer, "WORKER_ACK_WAIT=2s", "WORKER_MAX_ATTEMPTS=5", "WORKER_CONCURRENCY=4")
	k.cmd.Env = append(k.cmd.Env, env...)
	k.cmd.Stderr = k.stderr
	must(t, k.cmd.Start())
	go func() { _ = k.cmd.Wait(); close(k.ended) }()
	t.Cleanup(func() {
		_ = k.cmd.Process.Kill()
		<-k.ended
		if t.Failed() {
			t.Logf("a child's standard error:\n%s", k.stderr)
		}
	})
	return k
}

// events counts the lines of the children's file by their first word, and for each sequence.
func events(t *testing.T, out, word string) map[uint64]int {
	t.Helper()
	f, err := os.Open(out)
	if err != nil {
		return nil
	}
	defer f.Close()
	seen := map[uint64]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		w := strings.Fields(lines.Text())
		if len(w) < 2 || w[0] != word {
			continue
		}
		seq, err := strconv.ParseUint(w[1], 10, 64)
		must(t, err)
		seen[seq]++
	}
	return seen
}

// waitFor waits until n different sequences have a line with the word.
func (k *kid) waitFor(word string, n int, limit time.Duration) {
	k.t.Helper()
	for deadline := time.Now().Add(limit); len(events(k.t, k.out, word)) < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			k.t.Fatalf("after %v: %d lines %q of %d", limit, len(events(k.t, k.out, word)), word, n)
		}
	}
}

func (k *kid) signal(s syscall.Signal) { k.t.Helper(); must(k.t, k.cmd.Process.Signal(s)) }

// exit waits for the end and returns the exit code, 128 + the signal for a process that a signal killed, and how long it took.
func (k *kid) exit(limit time.Duration) (code int, took time.Duration) {
	k.t.Helper()
	began := time.Now()
	select {
	case <-k.ended:
	case <-time.After(limit):
		k.t.Fatalf("the child has not ended within %v", limit)
	}
	status := k.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return -int(status.Signal()), time.Since(began)
	}
	return status.ExitStatus(), time.Since(began)
}

// overs returns the names of the parts that ended, in order.
func overs(t *testing.T, out string) (names []string) {
	t.Helper()
	b, err := os.ReadFile(out)
	must(t, err)
	for line := range strings.Lines(string(b)) {
		if w := strings.Fields(line); len(w) == 3 && w[0] == "over" {
			names = append(names, w[2])
		}
	}
	return names
}
