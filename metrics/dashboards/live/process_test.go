package live

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program that the test has started.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.out.String()
	return all[max(0, len(all)-4000):]
}

// launch starts a program; it ends with the test.
func launch(t *testing.T, name string, env []string, args ...string) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = append(cleanEnv(), env...), p, p
	p.cmd.Dir = t.TempDir()
	endWithParent(p.cmd)
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("the end of the output of %s:\n%s", name, p.output())
		}
	})
	return p
}

// stop sends a signal and waits for the end.
func (p *process) stop(t *testing.T, sig syscall.Signal) {
	t.Helper()
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: still runs after %v", p.name, sig)
	}
}

// cleanEnv is the environment without what would reach a worker or the nats command.
func cleanEnv() []string {
	var out []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "NATS_") && !strings.HasPrefix(v, "WORKER_") && !strings.HasPrefix(v, "ACKFLOOR_") {
			out = append(out, v)
		}
	}
	return out
}

// service is a worker process, with its metrics on a port that stays the same when it is started again.
type service struct {
	consumer string
	addr     string
	env      []string
	kind     string
	*process
}

func newService(t *testing.T, url, consumer string, env ...string) *service {
	t.Helper()
	s := &service{consumer: consumer, addr: freeAddr(t), kind: "service"}
	s.env = append([]string{"NATS_URL=" + url, "WORKER_STREAM=EVENTS", "WORKER_CONSUMER=" + consumer, "WORKER_FILTER=events." + consumer,
		"WORKER_HTTP_ADDR=" + s.addr, "WORKER_PULL_EXPIRY=300ms"}, env...)
	return s
}

func (s *service) start(t *testing.T) *service {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.process = launch(t, s.consumer, append(s.env, childVariable+"="+s.kind), self)
	return s
}

// metrics is what the service exposes.
func (s *service) metrics(t *testing.T) []byte {
	t.Helper()
	b, err := fetch("http://" + s.addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func fetch(url string) ([]byte, error) {
	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	return io.ReadAll(resp.Body)
}

// freeAddr is an address on which nobody listens, below the ports of outgoing connections: one that is started again finds it free.
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

// await waits for what happens in its own time.
func await(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still waiting for %s after %v", what, limit)
		}
	}
}
