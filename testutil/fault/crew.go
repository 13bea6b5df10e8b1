package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Crew is a number of workers, each a process, that are started again after each fault.
type Crew struct {
	// Exited judges how a worker ended that was told to by SIGTERM: its exit code, as Process.Exit has it, and how long it took. An error ends
	// the schedule. nil takes exit code 0, and SIGTERM itself, which ends a process that does not listen for it yet. Set it before the first
	// fault.
	Exited func(code int, took time.Duration) error

	child Child
	limit time.Duration

	members []*member
}

type member struct {
	mu   sync.Mutex // held by the fault that has it
	proc *Process
}

// exitLimit is how long a worker may take to end.
const exitLimit = 60 * time.Second

// NewCrew starts n workers. Where one can't be started, those that were are killed.
func NewCrew(n int, c Child) (*Crew, error) {
	crew := &Crew{child: c, limit: exitLimit}
	for range n {
		p, err := c.Start()
		if err != nil {
			crew.Kill()
			return nil, err
		}
		crew.members = append(crew.members, &member{proc: p})
	}
	return crew, nil
}

// StartCrew starts n workers that end with the test. When the test failed, the end of what each of them printed is logged.
func StartCrew(t testing.TB, n int, c Child) *Crew {
	t.Helper()
	crew, err := NewCrew(n, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, p := range crew.Processes() {
			p.finish(t)
		}
	})
	return crew
}

// Processes are the workers that run now, or ran last.
func (c *Crew) Processes() []*Process {
	var all []*Process
	for _, m := range c.members {
		m.mu.Lock()
		all = append(all, m.proc)
		m.mu.Unlock()
	}
	return all
}

// Kill ends all workers by SIGKILL, and waits for that.
func (c *Crew) Kill() {
	for _, p := range c.Processes() {
		p.Kill()
		<-p.ended
	}
}

// Stop tells all workers to end by SIGTERM, and waits for that: the error joins what Exited says of each.
func (c *Crew) Stop() error {
	all := c.Processes()
	for _, p := range all {
		p.Term()
	}
	var wrong error
	for _, p := range all {
		wrong = errors.Join(wrong, c.exited(p))
	}
	return wrong
}

func (c *Crew) exited(p *Process) error {
	code, took, err := p.Exit(c.limit)
	if err == nil {
		err = c.judge(code, took)
	}
	if err != nil {
		return fmt.Errorf("worker %d: %w\n%s", p.Pid(), err, p.Output())
	}
	return nil
}

func (c *Crew) judge(code int, took time.Duration) error {
	if c.Exited != nil {
		return c.Exited(code, took)
	}
	if code != 0 && code != -int(syscall.SIGTERM) {
		return fmt.Errorf("it ended with %d after %v", code, took)
	}
	return nil
}

// TermWorker is a fault: a worker is told to end by SIGTERM, waited for, and started again.
func (c *Crew) TermWorker(every time.Duration) Fault {
	return c.fault("SIGTERM of a worker", every, func(_ context.Context, _ *rand.Rand, p *Process) error {
		p.Term()
		return c.exited(p)
	})
}

// KillWorker is a fault: a worker is killed with SIGKILL and started again.
func (c *Crew) KillWorker(every time.Duration) Fault {
	return c.fault("SIGKILL of a worker", every, func(_ context.Context, _ *rand.Rand, p *Process) error {
		p.Kill()
		_, _, err := p.Exit(c.limit)
		return err
	})
}

// HangWorker is a fault: a worker stands still, by SIGSTOP, about as long as d, and goes on.
func (c *Crew) HangWorker(every, d time.Duration) Fault {
	return c.fault("SIGSTOP of a worker", every, func(ctx context.Context, draw *rand.Rand, p *Process) error {
		d := about(draw, d)
		if err := p.Hang(time.Hour); err != nil {
			return err
		}
		rest(ctx, d)
		return p.Hang(0)
	})
}

// fault makes a fault of one worker, which is drawn. A worker that has ended by itself is started again.
func (c *Crew) fault(name string, every time.Duration, do func(ctx context.Context, draw *rand.Rand, p *Process) error) Fault {
	return Fault{Name: name, Every: every, Do: func(ctx context.Context, draw *rand.Rand) error {
		m := c.members[draw.IntN(len(c.members))]
		m.mu.Lock()
		defer m.mu.Unlock()
		if err := do(ctx, draw, m.proc); err != nil {
			return err
		}
		select {
		case <-m.proc.ended:
		default:
			return nil
		}
		p, err := c.child.Start()
		if err == nil {
			m.proc = p
		}
		return err
	}}
}
