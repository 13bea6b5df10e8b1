//go:build unix

package examples_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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

const (
	soon = 20 * time.Second // for what takes a moment; long, since the machine may be busy
	poll = 5 * time.Millisecond
)

var binaries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ackfloor-examples-")
	if err != nil {
		return "", err
	}
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	if raceDetector {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "./inventory", "./email", "./analytics", "./first")...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("building the examples: %w\n%s", err, out)
	}
	return dir, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := binaries(); dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// place is where examples run: a folder, and an address for the server that they share.
type place struct {
	dir  string
	addr string
}

func newPlace(t *testing.T) place {
	t.Helper()
	return place{dir: t.TempDir(), addr: freeAddr(t)}
}

// freeAddr is an address on which nobody listens, below the ports of outgoing connections: a server that comes back finds it free.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(20000))
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// cleanEnv is the environment without what would reach a worker or the nats command.
func cleanEnv() []string {
	var out []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "NATS_") && !strings.HasPrefix(name, "WORKER_") && !strings.HasPrefix(name, "ACKFLOOR_") {
			out = append(out, v)
		}
	}
	return out
}

// example is an example as a process.
type example struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}

	mu  sync.Mutex
	out bytes.Buffer // standard output and error
}

func (e *example) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.out.Write(p)
}

func (e *example) output() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.out.String()
}

// start starts an example; env are variables, or arguments where they begin with a dash.
func (p place) start(t *testing.T, name string, env ...string) *example {
	t.Helper()
	dir, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	e := &example{name: name, cmd: exec.Command(filepath.Join(dir, name)), done: make(chan struct{})}
	e.cmd.Dir, e.cmd.Stdout, e.cmd.Stderr = p.dir, e, e
	e.cmd.Env = append(cleanEnv(), "ACKFLOOR_EXAMPLE_ADDR="+p.addr, "WORKER_PULL_EXPIRY=200ms") // so that an idle one drains sooner
	for _, v := range env {
		if strings.HasPrefix(v, "-") {
			e.cmd.Args = append(e.cmd.Args, v)
		} else {
			e.cmd.Env = append(e.cmd.Env, v)
		}
	}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = e.cmd.Wait(); close(e.done) }()
	t.Cleanup(func() {
		_ = e.cmd.Process.Kill()
		<-e.done
		if t.Failed() {
			t.Logf("the output of %s:\n%s", name, e.output())
		}
	})
	return e
}

// sees waits until the output matches a pattern, and returns what matched.
func (e *example) sees(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(soon); ; {
		out := e.output()
		if m := re.FindString(out); m != "" {
			return m
		}
		select {
		case <-e.done:
			if m := re.FindString(e.output()); m != "" {
				return m
			}
			t.Fatalf("%s ended (%v) without %q", e.name, e.cmd.ProcessState, pattern)
		case <-time.After(poll):
		}
		if time.Now().After(end) {
			t.Fatalf("%s: no %q after %v", e.name, pattern, soon)
		}
	}
}

// count tells how many parts of the output match a pattern.
func (e *example) count(pattern string) int {
	return len(regexp.MustCompile(pattern).FindAllString(e.output(), -1))
}

func (e *example) handles(t *testing.T, want ...int) {
	t.Helper()
	got := make(map[int]int)
	for _, m := range regexp.MustCompile(`(?m)^  #(\d+) `).FindAllStringSubmatch(e.output(), -1) {
		var n int
		_, _ = fmt.Sscan(m[1], &n)
		got[n]++
	}
	ok := len(got) == len(want)
	for _, n := range want {
		ok = ok && got[n] == 1
	}
	if !ok {
		t.Errorf("%s handled %v (message: times), want %v, each once", e.name, got, want)
	}
}

func (e *example) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := e.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("%s: %v: %v", e.name, sig, err)
	}
}

// exits waits until the process has ended, with this code.
func (e *example) exits(t *testing.T, code int) {
	t.Helper()
	select {
	case <-e.done:
	case <-time.After(soon):
		t.Fatalf("%s still runs after %v", e.name, soon)
	}
	if got := e.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("%s exited with %d (%v), want %d", e.name, got, e.cmd.ProcessState, code)
	}
}

// stop is Ctrl-C: it drains, says where the next one resumes, and exits with 0.
func (e *example) stop(t *testing.T, resumeAt int) {
	t.Helper()
	e.signal(t, syscall.SIGINT)
	e.exits(t, 0)
	e.sees(t, fmt.Sprintf(`(?m)resume at %d$`, resumeAt))
}

// jetStream connects to the server on the place's address. leave closes the connection: the server waits a while for who is on it.
func (p place) jetStream(t *testing.T) (js jetstream.JetStream, leave func()) {
	t.Helper()
	nc, err := nats.Connect("nats://" + p.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err = jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js, nc.Close
}

// publish stores an event and returns its sequence.
func (p place) publish(t *testing.T, subject, data string) uint64 {
	t.Helper()
	js, leave := p.jetStream(t)
	defer leave()
	ack, err := js.Publish(t.Context(), subject, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return ack.Sequence
}

// nats runs the nats command against the server on the place's address.
func (p place) nats(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(testutil.NatsCommand(t), args...)
	cmd.Env = append(cleanEnv(), "NATS_URL=nats://"+p.addr, "XDG_CONFIG_HOME="+p.dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("nats %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// floors checks where consumers of EVENTS stand, with nothing outstanding and nothing pending, by the API and by the nats command.
func (p place) floors(t *testing.T, want map[string]uint64) {
	t.Helper()
	js, leave := p.jetStream(t)
	defer leave()
	for name, floor := range want {
		c, err := js.Consumer(t.Context(), "EVENTS", name)
		if err != nil {
			t.Fatal(err)
		}
		var info jetstream.ConsumerInfo
		if err := json.Unmarshal([]byte(p.nats(t, "consumer", "info", "EVENTS", name, "--json")), &info); err != nil {
			t.Fatal(err)
		}
		for by, i := range map[string]*jetstream.ConsumerInfo{"the API": c.CachedInfo(), "nats consumer info": &info} {
			if i.AckFloor.Stream != floor || i.NumAckPending != 0 || i.NumPending != 0 || i.NumRedelivered != 0 {
				t.Errorf("%s, by %s: ack floor %d, outstanding %d, pending %d, redelivered %d; want floor %d and else 0",
					name, by, i.AckFloor.Stream, i.NumAckPending, i.NumPending, i.NumRedelivered, floor)
			}
		}
	}
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}
