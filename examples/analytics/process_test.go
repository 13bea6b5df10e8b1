//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const asService = "ANALYTICS_TEST_IS_THE_SERVICE"

// TestMain is the service where a test starts this program as one.
func TestMain(m *testing.M) {
	if os.Getenv(asService) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func nothing(*ackfloor.Message, string, ...any) {}

// testRun runs a Runner until the test ends.
func testRun(t *testing.T, r *worker.Runner) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// service is the service as a process.
type service struct {
	cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex
	out  bytes.Buffer
}

func (s *service) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

func (s *service) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

func start(t *testing.T, dir string, env ...string) *service {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &service{cmd: exec.Command(self), done: make(chan struct{})}
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, s, s
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "NATS_") && !strings.HasPrefix(v, "WORKER_") && !strings.HasPrefix(v, "A") {
			s.cmd.Env = append(s.cmd.Env, v)
		}
	}
	s.cmd.Env = append(append(s.cmd.Env, asService+"=1", "WORKER_PULL_EXPIRY=200ms"), env...)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.cmd.Wait(); close(s.done) }()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
		if t.Failed() {
			t.Logf("the service's output:\n%s", s.output())
		}
	})
	return s
}

func (s *service) sees(t *testing.T, pattern string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !regexp.MustCompile(pattern).MatchString(s.output()); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %q", pattern)
		}
	}
}

func (s *service) ends(t *testing.T, sig os.Signal, code int) {
	t.Helper()
	_ = s.cmd.Process.Signal(sig)
	select {
	case <-s.done:
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("it exited with %v, want %d", s.cmd.ProcessState, code)
	}
}

// While events flow, the service and the server are killed and stopped in turn. In the end the files hold each event of the stream, and each once.
func TestKillsWhileEventsFlow(t *testing.T) {
	t.Parallel()
	rounds := 5
	if os.Getenv("ANALYTICS_LONG") != "" {
		rounds = 50
	}
	srv := testutil.ServerProcess(t)
	dir := t.TempDir()
	env := []string{"NATS_URL=" + srv.URL(), dirVariable + "=" + dir, "WORKER_ACK_WAIT=2s", "WORKER_BATCH_SIZE=300", "WORKER_BATCH_LINGER=50ms", "WORKER_CONCURRENCY=2"}
	s := start(t, dir, env...)
	s.sees(t, "cursor: delivered 6, ack floor 6")
	ctx, stop := context.WithCancel(t.Context())
	var flow sync.WaitGroup
	var confirmed atomic.Int64
	flow.Go(func() { keepPublishing(ctx, t, srv.URL(), &confirmed) })
	rng := rand.New(rand.NewPCG(3, 5))
	for i := range rounds {
		time.Sleep(time.Duration(100+rng.IntN(500)) * time.Millisecond)
		switch i % 5 {
		case 0:
			s.ends(t, syscall.SIGKILL, -1)
			s = start(t, dir, env...)
		case 1: // the server forgets up to 100 ms of acknowledgments, and the service that could say them again is gone
			srv.Kill()
			s.ends(t, syscall.SIGKILL, -1)
			srv.Start()
			s = start(t, dir, env...)
		case 2:
			srv.Kill()
			srv.Start()
		case 3:
			srv.Restart()
		case 4:
			s.sees(t, "working on") // before, a signal may find nobody who takes it
			s.ends(t, syscall.SIGTERM, 0)
			s = start(t, dir, env...)
		}
	}
	stop()
	flow.Wait()
	s.sees(t, "working on")
	s.ends(t, syscall.SIGTERM, 0)
	last := start(t, dir, append(env, "WORKER_EXIT_WHEN_IDLE=true")...)
	select {
	case <-last.done:
	case <-time.After(30 * time.Second):
		t.Fatal("it is never idle")
	}
	want := streamRows(t, srv.URL())
	if int64(len(want)) < confirmed.Load() {
		t.Fatalf("the stream has %d events, %d were confirmed", len(want), confirmed.Load())
	}
	files := &store{dir: dir}
	rows, copies := files.rows(t)
	t.Logf("%d events, %d rows of events that were written before, %d files", len(want), copies, len(files.names(t)))
	files.holds(t, want)
	if len(rows) < 200 {
		t.Errorf("only %d events: the test shows nothing", len(rows))
	}
	if err := files.compact(t.Context(), time.Now().Add(3*time.Hour)); err != nil {
		t.Fatal(err)
	}
	files.holds(t, want)
}

// keepPublishing publishes until ctx ends. A server that is gone is waited for; what was not confirmed may be there all the same.
func keepPublishing(ctx context.Context, t *testing.T, url string, confirmed *atomic.Int64) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Error(err)
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Error(err)
		return
	}
	for i := 0; ctx.Err() == nil; i++ {
		subject, data := "events.page_loaded", fmt.Sprintf(`{"page":"/p%d","visitor":"v%d"}`, i%9, i)
		if i%4 == 0 {
			subject, data = "events.input_changed", fmt.Sprintf(`{"field":"f%d"}`, i%3)
		}
		if i%7 == 0 {
			subject, data = "events.order_placed", `{"order_id":"1"}` // another service's
		}
		try, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		if _, err := js.Publish(try, subject, []byte(data)); err == nil && subject != "events.order_placed" {
			confirmed.Add(1)
		}
		cancel()
	}
}

// streamRows reads what is in the stream for analytics.
func streamRows(t *testing.T, url string) (rows []row) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.OrderedConsumer(t.Context(), "EVENTS", jetstream.OrderedConsumerConfig{FilterSubjects: []string{"events.page_loaded", "events.input_changed"}})
	if err != nil {
		t.Fatal(err)
	}
	for {
		m, err := c.Next(jetstream.FetchMaxWait(5 * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		r, err := decode(&ackfloor.Message{Subject: m.Subject(), Data: m.Data(), Sequence: meta.Sequence.Stream, Published: meta.Timestamp})
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
		if meta.NumPending == 0 {
			return rows
		}
	}
}

func TestTheServiceSumsUpWhenItIsQuiet(t *testing.T) {
	t.Parallel()
	srv := testutil.ServerProcess(t)
	dir := t.TempDir()
	s := start(t, dir, "NATS_URL="+srv.URL())
	s.sees(t, "4 events of 1 hour in 1 file; summed up in .ackfloor/analytics/summary.txt [(]and .json, .png[)]\n")
	files := &store{dir: filepath.Join(dir, ".ackfloor", "analytics")}
	_ = files.image(t, "summary.png")
	nc, err := nats.Connect(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{`{"page":"/home"}`, `no JSON`, `{"page":"/home"}`} {
		if _, err := js.Publish(t.Context(), "events.page_loaded", []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	s.sees(t, `#9 .* page /home, kept with the hour`)
	s.sees(t, `#10 .* refused: the event can't be decoded`)
	s.sees(t, `6 events of`)
	s.ends(t, syscall.SIGTERM, 0)
	s.sees(t, "6 handled, 1 refused; resume at 12\n")
	text, err := os.ReadFile(filepath.Join(files.dir, "summary.txt"))
	if err != nil || !strings.Contains(string(text), "3  /home\n") {
		t.Errorf("%s: %v\n%s", "summary.txt", err, text)
	}

	again := start(t, dir, "NATS_URL="+srv.URL(), "WORKER_EXIT_WHEN_IDLE=true")
	<-again.done
	again.sees(t, "0 handled; resume at 12\n")
	want := streamRowsButBad(t, srv.URL())
	files.holds(t, want)
}

func streamRowsButBad(t *testing.T, url string) (rows []row) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []uint64{1, 2, 4, 6, 9, 11} {
		m, err := stream.GetMsg(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		r, err := decode(&ackfloor.Message{Subject: m.Subject, Data: m.Data, Sequence: n, Published: m.Time})
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-report", "x"}, {"-report", "-hours", "-1"}, {"-bench"}, {"-bench", "many"}, {"-report", "-x"}} {
		if err := command(t.Context(), args); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}
