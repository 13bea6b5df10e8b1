package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// process is one of those that the demo runs: it can be stopped, killed and started again.
type process struct {
	name string
	path string
	env  []string
	dir  string
	log  io.Writer // what it prints

	mu      sync.Mutex
	cmd     *exec.Cmd
	done    chan struct{} // closed when it has ended
	started time.Time
	starts  int
	state   string // running, stopping, or how it ended
	last    string // the last line that it printed
}

// start starts it, unless it runs.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return nil
	}
	cmd := exec.Command(p.path)
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), p.env...)
	out := &lastLine{to: p.log, say: p.said}
	cmd.Stdout, cmd.Stderr = out, out
	ownGroup(cmd) // a Ctrl-C in the terminal is the demo's, which stops them in order
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.cmd, p.done, p.started, p.state = cmd, make(chan struct{}), time.Now(), "running"
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
	p.cmd = nil
	close(done)
}

// signal sends it a signal; nothing happens where it does not run.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	if s == syscall.SIGTERM {
		p.state = "stopping"
	}
	_ = p.cmd.Process.Signal(s) // it may have ended this moment
}

// stop stops it and waits, and kills it if it takes longer than limit.
func (p *process) stop(limit time.Duration) (clean bool) {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	p.signal(syscall.SIGTERM)
	if done == nil || p.ended(limit, done) {
		return true
	}
	p.signal(syscall.SIGKILL)
	<-done
	return false
}

func (p *process) ended(limit time.Duration, done chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

func (p *process) said(line string) {
	p.mu.Lock()
	p.last = line
	p.mu.Unlock()
}

// look is what is shown of it.
type look struct {
	name, state, last string
	starts            int
	running           bool
}

func (p *process) look() look {
	p.mu.Lock()
	defer p.mu.Unlock()
	return look{p.name, p.state, p.last, p.starts, p.cmd != nil}
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
