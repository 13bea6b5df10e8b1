package testutil

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

const stopLimit = 30 * time.Second

// P is a nats-server with JetStream as a process of its own: see ServerProcess.
type P struct {
	Access
	binary string
	args   []string
	port   int
	log    string // its output, of all its starts

	answers func() error  // nil once it is as ready as it can be
	limit   time.Duration // of that

	mu      sync.Mutex
	running *process // nil while stopped
}

// process is one start of a P.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has been waited for
}

// ServerProcess starts the binary that ServerBinary builds, with JetStream, on a free port of the loopback interface and
// with a temporary store, and returns when JetStream answers. It ends with the test; when that failed, the end of the server's
// output is logged. args are further arguments of nats-server, such as "-c" and a file.
func ServerProcess(t testing.TB, args ...string) *P {
	t.Helper()
	p, err := newP(ServerBinary(t), t.TempDir(), "testutil", args)
	if err != nil {
		t.Fatalf("testutil.ServerProcess: %v", err)
	}
	t.Cleanup(func() { p.finish(t) })
	if err := p.start(); err != nil {
		t.Fatalf("testutil.ServerProcess: %v", err)
	}
	return p
}

// NewServerProcess is ServerProcess for a program: binary is that of nats-server, and dir, which must exist, is where store and output are kept. Close ends it.
func NewServerProcess(binary, dir string, args ...string) (*P, error) {
	p, err := newP(binary, dir, "testutil", args)
	if err == nil {
		err = p.start()
	}
	if err != nil {
		return nil, fmt.Errorf("testutil.NewServerProcess: %w", err)
	}
	return p, nil
}

// newP makes what start starts.
func newP(binary, dir, name string, args []string) (*P, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	p := &P{binary: binary, port: port, log: filepath.Join(dir, "log"), limit: startLimit}
	p.replicas = 1
	p.args = append([]string{"-js", "-a", host, "-p", strconv.Itoa(p.port), "-sd", filepath.Join(dir, "store"), "-n", name}, args...)
	p.dial = func(opts ...nats.Option) (*nats.Conn, error) { return nats.Connect(p.URL(), opts...) }
	p.answers = p.jetStreamAnswers
	return p, nil
}

// Close kills the server, and closes what the helpers have opened. Its files stay.
func (p *P) Close() {
	p.close()
	p.Kill()
}

func (p *P) finish(t testing.TB) {
	p.Close()
	if t.Failed() {
		t.Logf("the end of the output of nats-server:\n%s", p.output())
	}
}

// URL is where the server listens, also while it is stopped.
func (p *P) URL() string { return "nats://" + net.JoinHostPort(host, strconv.Itoa(p.port)) }

// Pid is the process id of the server; 0 while it is stopped.
func (p *P) Pid() int {
	if running := p.current(); running != nil {
		return running.cmd.Process.Pid
	}
	return 0
}

// Signal sends a signal to the server: syscall.SIGUSR2 for lame duck mode, SIGSTOP and SIGCONT to make it hang for a while.
// It does nothing to one that is stopped or has ended by itself.
func (p *P) Signal(sig os.Signal) {
	if running := p.current(); running != nil {
		_ = running.cmd.Process.Signal(sig)
	}
}

// Stop ends the server with SIGTERM and waits until it has ended. It panics, after a SIGKILL, if that takes longer than
// 30 s. It does nothing to one that is stopped.
func (p *P) Stop() {
	if !p.end(syscall.SIGTERM) {
		p.end(syscall.SIGKILL)
		panic(fmt.Sprintf("testutil.ServerProcess: nats-server did not end within %v of a SIGTERM:\n%s", stopLimit, p.output()))
	}
}

// Kill ends the server with SIGKILL and waits until it has ended. It does nothing to one that is stopped.
func (p *P) Kill() { p.end(syscall.SIGKILL) }

// Start starts a server that was stopped, killed or has ended, on the same port and with the same store, and returns when
// JetStream answers. It panics if that can't be done, since it has no test to fail; so it may be called from any goroutine.
func (p *P) Start() {
	if err := p.start(); err != nil {
		panic("testutil.ServerProcess: " + err.Error())
	}
}

// Restart is Stop and Start.
func (p *P) Restart() {
	p.Stop()
	p.Start()
}

func (p *P) current() *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running
}

// end sends sig and reports whether the process has ended within stopLimit.
func (p *P) end(sig os.Signal) bool {
	running := p.current()
	if running == nil {
		return true
	}
	_ = running.cmd.Process.Signal(sig) // an error means that it has ended already
	select {
	case <-running.ended:
	case <-time.After(stopLimit):
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == running {
		p.running = nil
	}
	return true
}

// Ended waits until the server has ended by itself, as in lame duck mode, and tells whether it has done so within limit.
func (p *P) Ended(limit time.Duration) bool {
	running := p.current()
	if running == nil {
		return true
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-running.ended:
		return true
	case <-timer.C:
		return false
	}
}

func (p *P) start() error {
	running, err := p.launch()
	if err != nil {
		return err
	}
	return p.ready(running)
}

// launch starts the process and does not wait for it.
func (p *P) launch() (*process, error) {
	if running := p.current(); running != nil {
		select {
		case <-running.ended:
		default:
			return nil, errors.New("the server is running already")
		}
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	running := &process{cmd: exec.Command(p.binary, p.args...), ended: make(chan struct{})}
	running.cmd.Stdout, running.cmd.Stderr = log, log
	endWithParent(running.cmd)
	if err := running.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(running.ended)
		_ = running.cmd.Wait()
	}()
	p.mu.Lock()
	p.running = running
	p.mu.Unlock()
	return running, nil
}
