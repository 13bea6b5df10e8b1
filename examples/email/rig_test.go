//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const soon = 20 * time.Second // for what takes a moment; long, since the machine may be busy

// asService has the test's own binary be the service, so that nothing has to be built beside.
const asService = "EMAIL_TEST_AS_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(asService) != "" {
		main()
	}
	os.Exit(m.Run())
}

// running is the service as a process.
type running struct {
	cmd  *exec.Cmd
	done chan struct{}

	mu  sync.Mutex
	out bytes.Buffer // standard output and error
}

func (r *running) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Write(p)
}

func (r *running) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.String()
}

// start starts the service against a NATS server, quick where the defaults are patient.
func start(t *testing.T, dir, natsURL string, env ...string) *running {
	t.Helper()
	path, err := os.Executable()
	must(t, err)
	r := &running{cmd: exec.Command(path), done: make(chan struct{})}
	r.cmd.Dir, r.cmd.Stdout, r.cmd.Stderr = dir, r, r
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "NATS_") && !strings.HasPrefix(name, "WORKER_") && !strings.HasPrefix(name, "SMTP_") && !strings.HasPrefix(name, "EMAIL_") {
			r.cmd.Env = append(r.cmd.Env, v)
		}
	}
	r.cmd.Env = append(r.cmd.Env, asService+"=1", "NATS_URL="+natsURL, "WORKER_PULL_EXPIRY=200ms", "WORKER_LOG_FORMAT=json", "SMTP_FROM=Shop <shop@example.com>",
		"EMAIL_RATE=off", "EMAIL_PAUSE=200ms", "WORKER_RETRY=100ms")
	r.cmd.Env = append(r.cmd.Env, env...)
	must(t, r.cmd.Start())
	go func() { _ = r.cmd.Wait(); close(r.done) }()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.done
		if t.Failed() {
			t.Logf("the output:\n%s", r.output())
		}
	})
	return r
}

// sees waits until the output matches a pattern.
func (r *running) sees(t *testing.T, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(soon); !re.MatchString(r.output()); time.Sleep(5 * time.Millisecond) {
		select {
		case <-r.done:
			if !re.MatchString(r.output()) {
				t.Fatalf("it ended (%v) without %q", r.cmd.ProcessState, pattern)
			}
			return
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("no %q after %v", pattern, soon)
		}
	}
}

func (r *running) count(pattern string) int {
	return len(regexp.MustCompile(pattern).FindAllString(r.output(), -1))
}

// exits tells it to stop, and waits until it has.
func (r *running) exits(t *testing.T, code int) {
	t.Helper()
	must(t, r.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-r.done:
	case <-time.After(soon):
		t.Fatalf("it still runs after %v", soon)
	}
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
}

func (r *running) kill() {
	_ = r.cmd.Process.Kill()
	<-r.done
}

// at is SMTP_URL for a receiver.
func (r *receiver) url() string { return "SMTP_URL=smtp://" + r.addr + "?starttls=none" }

func withPassword(r *receiver, secret string) string {
	return "SMTP_URL=smtp://shop:" + url.QueryEscape(secret) + "@" + r.addr + "?starttls=none"
}

// events is a stream EVENTS that is not new: it holds one event that nobody is to be written to about.
func events(t *testing.T) (*testutil.S, jetstream.JetStream) {
	t.Helper()
	s := testutil.Server(t)
	s.Stream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}, Storage: jetstream.FileStorage})
	js := s.JetStream(t)
	publish(t, js, "events.order_placed", `{"email":"past@example.com","order_id":"1"}`)
	return s, js
}

func publish(t *testing.T, js jetstream.JetStream, subject, data string) uint64 {
	t.Helper()
	ack, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Data: []byte(data)})
	must(t, err)
	return ack.Sequence
}

func placed(t *testing.T, js jetstream.JetStream, n int) uint64 {
	t.Helper()
	return publish(t, js, "events.order_placed", fmt.Sprintf(`{"email":"ada+%d@example.com","order_id":"%d","sku":"mug","quantity":1}`, n, n))
}

// letters is how many dead letters there are.
func letters(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	s, err := js.Stream(t.Context(), "EVENTS_DLQ")
	if err != nil {
		return 0
	}
	return s.CachedInfo().State.Msgs
}

func floor(t *testing.T, s *testutil.S, want uint64) {
	t.Helper()
	s.WaitInfo(t, "EVENTS", "email", soon, fmt.Sprintf("floor %d", want), func(i *jetstream.ConsumerInfo) bool {
		return i.AckFloor.Stream == want && i.NumAckPending == 0 && i.NumPending == 0
	})
}
