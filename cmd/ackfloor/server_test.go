//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/creack/pty"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// outcome runs a command and returns its exit code and what it wrote.
func outcome(t *testing.T, cmd *exec.Cmd) (code int, out string) {
	t.Helper()
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	timer := time.AfterFunc(limit, func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill()
		}
	})
	defer timer.Stop()
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), b.String()
}

// A replay goes to the consumer that failed and to no other, with the message's own subject, headers and sequence; one that fails again is a new
// letter, which says so.
func TestReplayReachesOneConsumer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.Events(t, 3) // which makes the stream
	var mu sync.Mutex
	var seen []string
	handler := func(consumer string, fails int) ackfloor.HandlerFunc {
		return func(_ context.Context, m *ackfloor.Message) error {
			mu.Lock()
			defer mu.Unlock()
			replays := m.Header.Get(deadletter.HeaderReplays)
			seen = append(seen, fmt.Sprintf("%s %s %d %s replays=%s", consumer, m.Subject, m.Sequence, m.Data, replays))
			if m.Sequence == 2 && fails > 0 {
				fails--
				return ackfloor.Permanent(errors.New("no stock"))
			}
			return nil
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for consumer, fails := range map[string]int{"orders": 2, "email": 0} {
		w, err := worker.New(r.server.Conn(t), worker.Config{Stream: "EVENTS", Consumer: consumer, DeadLetterBytes: 64 << 20, Logger: zap.NewNop()}, handler(consumer, fails))
		if err != nil {
			t.Fatal(err)
		}
		workers.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Errorf("%s: %v", consumer, err)
			}
		})
	}
	defer workers.Wait()
	defer stop()
	wait := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(limit); !ok(); <-time.After(10 * time.Millisecond) {
			if time.Now().After(end) {
				mu.Lock()
				defer mu.Unlock()
				t.Fatalf("%s: not within %v; seen %q", what, limit, seen)
			}
		}
	}
	wait("a letter", func() bool {
		_, out := outcome(t, r.command("count", "--stream", "EVENTS", "--json"))
		return strings.Contains(out, `"consumer":"orders","reason":"permanent","open":1`)
	})
	if code, out := outcome(t, r.command("replay", "--all", "--yes", "--wait")); code != 1 || !strings.Contains(out, "0 handled, 1 failed again") {
		t.Fatalf("%d\n%s", code, out)
	}
	if code, out := outcome(t, r.command("replay", "--all", "--yes", "--wait")); code != 0 || !strings.Contains(out, "1 handled, 0 failed again") {
		t.Fatalf("%d\n%s", code, out)
	}
	if code, out := outcome(t, r.command("list", "--json")); code != 0 || !strings.Contains(out, `"state":"handled"`) || !strings.Contains(out, `"replays":1`) {
		t.Errorf("%d\n%s", code, out)
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(seen)
	want := []string{
		"email events.0 1 0 replays=", "email events.1 2 1 replays=", "email events.2 3 2 replays=",
		"orders events.0 1 0 replays=", "orders events.1 2 1 replays=", "orders events.1 2 1 replays=1", "orders events.1 2 1 replays=2", "orders events.2 3 2 replays=",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("handlers saw\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
}

// What somebody else removes while the question stands is not there any more, and nothing worse.
func TestRemovedWhileAsking(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.many(t, 3)
	for _, c := range []struct{ verb, says string }{
		{"replay", "replayed 2 letters, 1 letter gone meanwhile"},
		{"rm", "removed 1 letter, 1 letter gone meanwhile"},
	} {
		cmd := r.command(c.verb, "--all")
		terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 100})
		if err != nil {
			t.Fatal(err)
		}
		defer terminal.Close()
		timer := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		var shown strings.Builder
		for buf := make([]byte, 4096); ; {
			n, err := terminal.Read(buf)
			if err != nil {
				break // the other side is closed
			}
			if shown.Write(buf[:n]); strings.HasSuffix(shown.String(), "[y/N] ") {
				first := map[string]string{"replay": "2", "rm": "1"}[c.verb]
				if code, out := outcome(t, r.command("rm", first, "--yes")); code != 0 {
					t.Fatal(out)
				}
				if _, err := terminal.WriteString("y\n"); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(shown.String(), c.says) {
			t.Errorf("%s: exit code %d, or it does not say %q:\n%s", c.verb, code, c.says, shown.String())
		}
	}
}

// A signal says more than what it made fail.
func TestExitCodeOfASignal(t *testing.T) {
	r := newRig(t)
	r.many(t, 1)
	t.Setenv("NATS_URL", r.server.URL())
	ctx, stop := context.WithCancelCause(t.Context())
	stop(&shutdown.SignalError{Signal: syscall.SIGTERM})
	var out, said bytes.Buffer
	if code := run(ctx, &screen{in: &out, out: &out, err: &said}, []string{"dead-letters", "list", "--stream", "EVENTS"}); code != 143 || said.String() != "interrupted\n" {
		t.Errorf("exit code %d, %q", code, said.String())
	}
}

// The rights that docs/howto-dead-letters.md lists are enough, and where one is missing its subject is named.
func TestRights(t *testing.T) {
	t.Parallel()
	doc := rightsOfDoc(t)
	look, replay, remove := doc["look"], append(doc["look"], doc["replay"]...), append(doc["look"], doc["remove"]...)
	user := func(name string, publish []string) *server.User {
		return &server.User{Username: name, Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: doc["subscribe"]}}}
	}
	s := testutil.Server(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin", Password: "p"}, user("looker", look), user("replayer", replay), user("remover", remove), user("nobody", []string{"nothing"})}
	})
	login := nats.UserInfo("admin", "p")
	s.Login(login)
	r := &rig{server: s, nc: s.Conn(t, login), js: s.JetStream(t, login)}
	r.many(t, 3)
	as := func(name string, args ...string) *exec.Cmd {
		cmd := r.command(args...)
		cmd.Env = append(cmd.Env, "NATS_USER="+name, "NATS_PASSWORD=p", "WORKER_STREAM=EVENTS", "NATS_INBOX_PREFIX=_INBOX_person")
		return cmd
	}
	type step struct {
		code int
		says string
		cmd  *exec.Cmd
	}
	check := func(steps ...step) {
		t.Helper()
		for _, c := range steps {
			if code, out := outcome(t, c.cmd); code != c.code || !strings.Contains(out, c.says) {
				t.Errorf("%v: exit code %d, not %d, or it does not say %q:\n%s", c.cmd.Args, code, c.code, c.says, out)
			}
		}
	}
	check([]step{
		{0, "events.order_placed", as("looker", "list")},
		{0, "exhausted", as("looker", "count")},
		{0, "Payload", as("looker", "show", "1")},
		{69, `: allow "replay.EVENTS.orders.>"` + "\nreplayed 0 letters, 1 letter left\n", as("looker", "replay", "1", "--yes")},
		{69, `$JS.API.STREAM.MSG.DELETE.EVENTS_DLQ`, as("looker", "rm", "1", "--yes")},
		{69, `$JS.API.STREAM.INFO.EVENTS_DLQ`, as("nobody", "list")},
		{0, "replayed 1 letter", as("replayer", "replay", "1", "--yes")},
		{0, "replayed 2 letters", as("replayer", "replay", "--all", "--yes")},
	}...)
	if err := r.settleReplays("EVENTS", "orders", "handled", "handled", "handled"); err != nil {
		t.Fatal(err)
	}
	check([]step{
		{0, "events.order_placed", as("looker", "list", "--state", "handled")},
		{0, "handled", as("looker", "show", "1")},
		{0, "removed 3 letters", as("remover", "rm", "--state", "handled", "--yes")},
	}...)
}

// A JetStream domain, and an API prefix, as the worker's environment has them.
func TestDomain(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t, func(o *server.Options) { o.JetStreamDomain = "hub" })
	r := &rig{server: s, nc: s.Conn(t), js: s.JetStream(t)}
	r.many(t, 1)
	for _, c := range []struct {
		env  string
		code int
	}{
		{"NATS_JS_DOMAIN=hub", 0}, {"NATS_JS_API_PREFIX=$JS.hub.API", 0}, {"NATS_JS_API_PREFIX=$JS.hub.API.", 0},
		{"NATS_JS_DOMAIN=elsewhere", 69}, {"NATS_JS_API_PREFIX=$JS.*.API", 78},
	} {
		cmd := r.command("replay", "--all", "--yes", "--timeout", "1s")
		cmd.Env = append(cmd.Env, c.env)
		if code, out := outcome(t, cmd); code != c.code {
			t.Errorf("%s: exit code %d, not %d\n%s", c.env, code, c.code, out)
		}
	}
}
