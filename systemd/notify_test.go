package systemd_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/systemd"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// manager stands for systemd: it reads the socket.
type manager struct {
	mu       sync.Mutex
	messages []string
}

func newManager(t *testing.T) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd") // short: a socket's path has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "n")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	m := &manager{}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := socket.Read(buf)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.messages = append(m.messages, string(buf[:n]))
			m.mu.Unlock()
		}
	}()
	return m
}

// lines are all assignments so far, in order.
func (m *manager) lines() (out []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, msg := range m.messages {
		out = append(out, strings.Split(msg, "\n")...)
	}
	return out
}

func (m *manager) count(prefix string) (n int) {
	for _, l := range m.lines() {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

func (m *manager) sees(t *testing.T, prefix string, limit time.Duration) {
	t.Helper()
	for end := time.Now().Add(limit); m.count(prefix) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %q within %v: %q", prefix, limit, m.lines())
		}
	}
}

// started is a worker with its part, as worker.Main runs them.
type started struct {
	stop    context.CancelFunc // of the Runner
	stopped chan error         // what it returned
	part    chan error
}

func start(t *testing.T, s *testutil.S, h ackfloor.Handler, change func(*worker.Config)) *started {
	t.Helper()
	cfg := worker.Config{Stream: "EVENTS", Consumer: "D", DeadLetter: "off", Records: "off", PullExpiry: 200 * time.Millisecond, DrainTimeout: 20 * time.Second, Logger: zap.NewNop()}
	if change != nil {
		change(&cfg)
	}
	r, err := worker.New(s.Conn(t), cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	beside, end := context.WithCancel(context.Background())
	st := &started{stop: stop, stopped: make(chan error, 1), part: make(chan error, 1)}
	go func() { st.part <- systemd.Notify(beside, r) }()
	go func() {
		err := r.Run(ctx)
		end()
		st.stopped <- err
	}()
	t.Cleanup(func() { stop(); end() })
	return st
}

func (s *started) ends(t *testing.T) {
	t.Helper()
	for what, c := range map[string]chan error{"the worker": s.stopped, "the part": s.part} {
		select {
		case err := <-c:
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s does not end", what)
		}
	}
}

// A start is done when the consumer is bound; a stop is announced, says how it goes on, asks for time while a handler runs, and ends with where the next one resumes.
func TestLife(t *testing.T) {
	m := newManager(t)
	s := testutil.Server(t)
	s.Events(t, 3)
	running, release := make(chan struct{}), make(chan struct{})
	w := start(t, s, ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
		if m.Sequence == 3 {
			close(running)
			<-release
		}
		return nil
	}), nil)
	<-running
	m.sees(t, "READY=1", 10*time.Second)
	if m.count("STOPPING") != 0 {
		t.Error("it stops before it was told to")
	}
	w.stop()
	m.sees(t, "STOPPING=1", 5*time.Second)
	m.sees(t, "STATUS=draining: 1 running, 0 waiting, ", 5*time.Second)
	time.Sleep(2500 * time.Millisecond)
	if n := m.count("EXTEND_TIMEOUT_USEC=10000000"); n < 2 {
		t.Errorf("time was asked for %d times", n)
	}
	close(release)
	w.ends(t)
	m.sees(t, "STATUS=stopped: drained: resumes at the ack floor 3, 0 pending", time.Second)
	if m.count("READY=1") != 1 || m.count("WATCHDOG") != 0 {
		t.Errorf("said: %q", m.lines())
	}
}

// While the stream is not there the start is not done: time is asked for, and the status says what is waited for. A process that is done before it was looked at was ready too.
func TestWaitsForTheStream(t *testing.T) {
	m := newManager(t)
	s := testutil.Server(t)
	w := start(t, s, testutil.Succeed(), func(c *worker.Config) { c.ExitWhenIdle = true })
	m.sees(t, "EXTEND_TIMEOUT_USEC=", 5*time.Second)
	m.sees(t, "STATUS=waiting for D on EVENTS", 5*time.Second)
	if m.count("READY") != 0 {
		t.Error("it is ready without its stream")
	}
	s.Events(t, 1)
	w.ends(t)
	m.sees(t, "READY=1", 5*time.Second)
}

// blocking is a logger's core on which a line with the text blocks, and so does the loop that writes it.
type blocking struct {
	zapcore.Core
	text    string
	release chan struct{}
}

func (b blocking) Enabled(zapcore.Level) bool        { return true }
func (b blocking) With([]zapcore.Field) zapcore.Core { return b }
func (b blocking) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return to.AddCore(e, b)
}
func (b blocking) Write(e zapcore.Entry, _ []zapcore.Field) error {
	if strings.Contains(e.Message, b.text) {
		<-b.release
	}
	return nil
}

// The watchdog is fed while the loops go round, with a slow handler and without a server too, and not when one of them hangs.
func TestWatchdog(t *testing.T) {
	m := newManager(t)
	t.Setenv("WATCHDOG_USEC", strconv.Itoa(int((600 * time.Millisecond).Microseconds())))
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	s := testutil.Server(t)
	s.Events(t, 2)
	hang := make(chan struct{})
	var once sync.Once
	free := func() { once.Do(func() { close(hang) }) }
	defer free()
	done := make(chan struct{})
	w := start(t, s, ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
		<-done // it does not look at its context
		return nil
	}), func(c *worker.Config) {
		c.HandleTimeout = 4 * time.Second
		c.Logger = zap.New(blocking{zapcore.NewNopCore(), "the handle timeout has passed", hang})
	})
	m.sees(t, "READY=1", 10*time.Second)
	before := m.count("WATCHDOG=1")
	time.Sleep(time.Second)
	s.Stop()
	time.Sleep(time.Second)
	s.Start()
	if n := m.count("WATCHDOG=1") - before; n < 5 {
		t.Errorf("fed %d times in two seconds", n)
	}
	time.Sleep(3 * time.Second) // the handle timeout has passed, and the loop hangs
	n := m.count("WATCHDOG=1")
	time.Sleep(time.Second)
	if more := m.count("WATCHDOG=1") - n; more != 0 {
		t.Errorf("fed %d times while a loop hangs", more)
	}
	free()
	close(done)
	n = m.count("WATCHDOG=1")
	time.Sleep(time.Second)
	if m.count("WATCHDOG=1") == n {
		t.Error("not fed when it goes on")
	}
	w.stop()
	w.ends(t)
}

// Several Runners are one service; without systemd nothing happens; a socket that is not there is an error.
func TestForms(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 1)
	var all []*worker.Runner
	for i := range 2 {
		r, err := worker.New(s.Conn(t), worker.Config{Stream: "EVENTS", Consumer: fmt.Sprintf("D%d", i), DeadLetter: "off", Records: "off", PullExpiry: 200 * time.Millisecond, Logger: zap.NewNop()}, testutil.Succeed())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	t.Setenv("NOTIFY_SOCKET", "")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := systemd.For(all...)(ctx); err != nil {
		t.Error(err)
	}
	m := newManager(t)
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- systemd.For(all...)(ctx) }()
	m.sees(t, "STATUS=D0: waiting for D0 on EVENTS; D1: waiting", 5*time.Second)
	go func() { _ = worker.RunAll(ctx, all...) }()
	m.sees(t, "READY=1", 10*time.Second)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}

	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	w := start(t, s, testutil.Succeed(), nil)
	select {
	case err := <-w.part:
		if err == nil || !strings.Contains(err.Error(), "NOTIFY_SOCKET") {
			t.Errorf("%v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing is said of a socket that is not there")
	}
}

// Of two Runners one ends because it is idle: that is no stop of the service.
func TestOneThatIsIdleStopsNothing(t *testing.T) {
	m := newManager(t)
	s := testutil.Server(t)
	s.Events(t, 1)
	var all []*worker.Runner
	for i := range 2 {
		r, err := worker.New(s.Conn(t), worker.Config{Stream: "EVENTS", Consumer: fmt.Sprintf("D%d", i), DeadLetter: "off", Records: "off", PullExpiry: 200 * time.Millisecond, ExitWhenIdle: i == 0, Logger: zap.NewNop()}, testutil.Succeed())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	part, beside := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- systemd.For(all...)(part) }()
	ran := make(chan error, 1)
	go func() { ran <- worker.RunAll(ctx, all...) }()
	m.sees(t, "READY=1", 10*time.Second)
	for end := time.Now().Add(20 * time.Second); all[0].Status().State != worker.StateEnded; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the idle one does not end")
		}
	}
	time.Sleep(2500 * time.Millisecond)
	if n := m.count("STOPPING"); n != 0 {
		t.Errorf("the stop was announced %d times", n)
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	beside()
	if err := <-done; err != nil {
		t.Error(err)
	}
	m.sees(t, "STOPPING=1", 2*time.Second)
}

// An idle worker asks the server for its numbers every five seconds, not each time that it looks.
func TestAsksTheServerSeldom(t *testing.T) {
	newManager(t)
	s := testutil.Server(t)
	s.Events(t, 1)
	asked := make(chan struct{}, 1000)
	nc := s.Conn(t)
	if _, err := nc.Subscribe("$JS.API.CONSUMER.INFO.EVENTS.D", func(*nats.Msg) { asked <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	w := start(t, s, testutil.Succeed(), nil)
	time.Sleep(3 * time.Second)
	before := len(asked)
	time.Sleep(6 * time.Second)
	if n := len(asked) - before; n > 3 {
		t.Errorf("the server was asked %d times in six seconds", n)
	}
	w.stop()
	w.ends(t)
}
