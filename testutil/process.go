package testutil

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const stopLimit = 30 * time.Second

// P is a nats-server with JetStream as a process of its own: see ServerProcess.
type P struct {
	Access
	binary string
	args   []string
	port   int
	log    string // its output, of all its starts

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
	dir := t.TempDir()
	p := &P{binary: ServerBinary(t), port: freePort(t), log: filepath.Join(dir, "log")}
	p.replicas = 1
	p.args = append([]string{"-js", "-a", host, "-p", strconv.Itoa(p.port), "-sd", filepath.Join(dir, "store"),
		"-n", "testutil"}, args...)
	p.dial = func(opts ...nats.Option) (*nats.Conn, error) { return nats.Connect(p.URL(), opts...) }
	t.Cleanup(func() {
		p.close()
		p.Kill()
		if t.Failed() {
			t.Logf("the end of the output of nats-server:\n%s", p.output())
		}
	})
	if err := p.start(); err != nil {
		t.Fatalf("testutil.ServerProcess: %v", err)
	}
	return p
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

func (p *P) start() error {
	if running := p.current(); running != nil {
		select {
		case <-running.ended:
		default:
			return errors.New("the server is running already")
		}
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	running := &process{cmd: exec.Command(p.binary, p.args...), ended: make(chan struct{})}
	running.cmd.Stdout, running.cmd.Stderr = log, log
	endWithParent(running.cmd)
	if err := running.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(running.ended)
		_ = running.cmd.Wait()
	}()
	p.mu.Lock()
	p.running = running
	p.mu.Unlock()
	return p.ready(running)
}

// ready waits until JetStream answers.
func (p *P) ready(running *process) error {
	err := errors.New("it was not asked")
	exited := false
	if poll(startLimit, func() bool {
		select {
		case <-running.ended:
			exited = true
		default:
			err = p.answers()
		}
		return exited || err == nil
	}) && !exited {
		return nil
	}
	if exited {
		return fmt.Errorf("nats-server ended at once: %v\n%s", running.cmd.ProcessState, p.output())
	}
	return fmt.Errorf("JetStream does not answer after %v: %w\n%s", startLimit, err, p.output())
}

func (p *P) answers() error {
	nc, err := p.dial(nats.Timeout(requestLimit))
	if errors.Is(err, nats.ErrAuthorization) {
		return nil // args ask for a password; as much as can be known here
	}
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	_, err = js.AccountInfo(ctx)
	return err
}

// output returns the last lines of the server's output.
func (p *P) output() string {
	all, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(all)), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
