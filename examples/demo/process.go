package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// process is one of those that the demo runs: it can be stopped, killed and started again.
type process struct {
	name  string
	path  string
	env   []string // its own, beside what it inherits
	dir   string
	log   io.Writer // what it prints
	page  string    // address of its status page; "": it has none
	piped bool      // it ends when its standard input does, which is when the demo has ended

	mu     sync.Mutex
	cmd    *exec.Cmd
	done   chan struct{} // closed when it has ended
	starts int
	asked  bool   // told to end, since it was started
	over   bool   // not to be started again
	fault  error  // why it ended though nobody had asked for that
	state  string // running, stopping, or how it ended
	last   string // the last line that it printed
}

var errOver = errors.New("the demo is ending")

// start starts it, unless it runs. Where it is about to end, that is waited for.
func (p *process) start(ctx context.Context) error {
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	for {
		ending, err := p.tryStart()
		if ending == nil {
			return err
		}
		select {
		case <-ending:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			return fmt.Errorf("start %s: it has been told to end, and has not after %v", p.name, stopLimit)
		}
	}
}

// tryStart starts it, unless it runs. ending is not nil where it has to end first.
func (p *process) tryStart() (ending <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over:
		return nil, errOver
	case p.cmd != nil && p.asked:
		return p.done, nil
	case p.cmd != nil:
		return nil, nil
	}
	return nil, p.begin()
}

func (p *process) begin() error {
	cmd := exec.Command(p.path)
	cmd.Dir, cmd.Env = p.dir, environment(p.env...)
	out := &lastLine{to: p.log, say: p.said}
	cmd.Stdout, cmd.Stderr = out, out
	if p.piped {
		if _, err := cmd.StdinPipe(); err != nil { // open as long as cmd is
			return fmt.Errorf("start %s: %w", p.name, err)
		}
	}
	if err := launch(cmd, !p.piped); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.cmd, p.done, p.asked, p.state = cmd, make(chan struct{}), false, "running"
	p.starts++
	go p.wait(cmd, p.done)
	return nil
}

func (p *process) wait(cmd *exec.Cmd, done chan struct{}) {
	err := cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus); {
	case status.Signaled():
		p.state = status.Signal().String()
	case err == nil:
		p.state = "stopped"
	default:
		p.state = fmt.Sprintf("ended with %d", cmd.ProcessState.ExitCode())
	}
	if err != nil && !p.asked && p.fault == nil {
		p.fault = fmt.Errorf("%s was not told to end, and %s: %s", p.name, p.state, p.last)
		if cmd.ProcessState.ExitCode() < 0 {
			p.fault = fmt.Errorf("%s was ended by a signal that is not the demo's: %s", p.name, p.state)
		}
	}
	p.cmd = nil
	close(done)
}

// signal sends it a signal that ends it; nothing happens where it does not run.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	if p.asked = true; s == syscall.SIGTERM {
		p.state = "stopping"
	}
	_ = p.cmd.Process.Signal(s) // it may have ended this moment
}

// stop stops it for good and waits, and kills it if it takes longer than limit. One that was told before is not told again: a second SIGTERM means at once.
func (p *process) stop(limit time.Duration) (clean bool) {
	p.mu.Lock()
	p.over = true
	asked := p.asked
	p.mu.Unlock()
	if !asked {
		p.signal(syscall.SIGTERM)
	}
	if p.ended(limit) {
		return true
	}
	p.kill()
	p.ended(killLimit)
	return false
}

// kill ends it at once, for good.
func (p *process) kill() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.signal(syscall.SIGKILL)
}

// ended waits until it has ended, for limit at the most.
func (p *process) ended(limit time.Duration) bool {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	if done == nil {
		return true // it never ran
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// wrong is why it ended though nobody had asked for that; nil: it did not.
func (p *process) wrong() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

func (p *process) said(line string) {
	p.mu.Lock()
	p.last = line
	p.mu.Unlock()
}

// look is what is shown of it.
type look struct {
	name, page, state, last string
	starts                  int
	running                 bool
}

func (p *process) look() look {
	p.mu.Lock()
	defer p.mu.Unlock()
	return look{p.name, p.page, p.state, p.last, p.starts, p.cmd != nil}
}

// lastLine passes on what a process prints, and tells each line.
type lastLine struct {
	to   io.Writer
	say  func(string)
	rest []byte
}

func (l *lastLine) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 {
			break
		}
		if line := bytes.TrimSpace(l.rest[:i]); len(line) > 0 {
			l.say(string(line))
		}
		l.rest = l.rest[i+1:]
	}
	if len(l.rest) > 1<<16 { // a line without an end
		l.rest = nil
	}
	return l.to.Write(b)
}
