package fault

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Variables by which a child finds what it is.
const (
	childVariable   = "ACKFLOOR_FAULT_CHILD"
	journalVariable = "ACKFLOOR_FAULT_JOURNAL"
)

// Child says how to start a process. The zero values of Path, Args and Output do for a program of this binary.
type Child struct {
	Name    string    // the program in Programs that it runs; "" where Path is another binary
	Path    string    // of the binary; "" is the binary that runs now
	Args    []string  // its arguments
	Env     []string  // added to the environment of this process, as "NAME=value"
	Journal *Journal  // that the child finds as ChildJournal; nil for none
	Output  io.Writer // of what it prints, to either; nil keeps the last 64 KiB for Process.Output. A writer must be safe to use by several goroutines
}

// Process is a process that was started.
type Process struct {
	child   Child
	cmd     *exec.Cmd
	output  *tail
	ended   chan struct{} // closed when it has been waited for
	mu      sync.Mutex    // of what follows
	resumes *time.Timer   // of Hang; nil while it runs
}

// Start starts a child. On Linux it ends with this process, even when that is killed.
func (c Child) Start() (*Process, error) {
	if c.Path == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("fault: starting a child of this binary: %w", err)
		}
		c.Path = self
	}
	p := &Process{child: c, cmd: exec.Command(c.Path, c.Args...), output: &tail{}, ended: make(chan struct{})}
	p.cmd.Env = os.Environ()
	if c.Name != "" {
		p.cmd.Env = append(p.cmd.Env, childVariable+"="+c.Name)
	}
	if c.Journal != nil {
		p.cmd.Env = append(p.cmd.Env, journalVariable+"="+c.Journal.Path())
	}
	p.cmd.Env = append(p.cmd.Env, c.Env...)
	var out io.Writer = p.output
	if c.Output != nil {
		out = io.MultiWriter(p.output, c.Output)
	}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.WaitDelay = time.Second // for what the child has started itself and left behind
	endWithParent(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("fault: starting %s: %w", c.Path, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	return p, nil
}

// Start starts a child that ends with the test. When the test failed, the end of what the child printed is logged.
func Start(t testing.TB, c Child) *Process {
	t.Helper()
	p, err := c.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.finish(t) })
	return p
}

func (p *Process) finish(t testing.TB) {
	p.Kill()
	<-p.ended
	if t.Failed() {
		t.Logf("what child %d printed last:\n%s", p.Pid(), p.Output())
	}
}

// Pid is the process id, also after the process has ended.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Output is the end of what the process has printed so far, 64 KiB at most.
func (p *Process) Output() string { return p.output.String() }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Signal sends a signal. It does nothing to a process that has ended.
func (p *Process) Signal(sig os.Signal) {
	p.note(sig)
	_ = p.cmd.Process.Signal(sig) // an error means that it has ended
}

// Term asks the process to end, by SIGTERM.
func (p *Process) Term() { p.Signal(syscall.SIGTERM) }

// Kill ends the process by SIGKILL.
func (p *Process) Kill() { p.Signal(syscall.SIGKILL) }

// Hang stops the process by SIGSTOP, and lets it go on after d, by SIGCONT. It does not wait. Windows can't.
func (p *Process) Hang(d time.Duration) error {
	stop, cont, err := hangSignals()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resumes != nil {
		p.resumes.Reset(d)
		return nil
	}
	p.Signal(stop)
	p.resumes = time.AfterFunc(d, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.resumes = nil
		p.Signal(cont)
	})
	return nil
}

// note writes the signal into the journal, before it is sent: so that what a killed process held can be told from what a living one had.
func (p *Process) note(sig os.Signal) {
	select {
	case <-p.ended:
		return
	default:
	}
	if p.child.Journal != nil {
		_ = p.child.Journal.write(Event{Kind: KindSignal, Target: p.Pid(), Name: sig.String()})
	}
}

// ErrAlive says that a process has not ended in time.
var ErrAlive = errors.New("fault: the process has not ended")

// Exit waits for the end of the process. code is its exit code, or the signal that killed it as a negative number: -9 for SIGKILL. took is how long Exit
// waited. The error wraps ErrAlive when that is longer than limit.
func (p *Process) Exit(limit time.Duration) (code int, took time.Duration, err error) {
	began := time.Now()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		return 0, limit, fmt.Errorf("%w within %v; it printed:\n%s", ErrAlive, limit, p.Output())
	}
	return exitCode(p.cmd.ProcessState), time.Since(began), nil
}

// tail keeps the end of what was written.
type tail struct {
	mu  sync.Mutex
	end []byte
}

const tailSize = 64 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, b...)
	if len(t.end) > 2*tailSize {
		t.end = append([]byte(nil), t.end[len(t.end)-tailSize:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.end[max(0, len(t.end)-tailSize):])
}
