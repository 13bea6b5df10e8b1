package main

import (
	"os"
	"sync"
	"time"
)

const killLimit = 2 * time.Second // for a process that was killed to be gone

// leftovers are what must not outlive the demo, also when it has to end at once: its processes, and the folder of the programs that it built.
type leftovers struct {
	mu        sync.Mutex
	processes []*process
	folder    string
}

func (l *leftovers) watch(p *process) *process {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.processes = append(l.processes, p)
	return p
}

// temp makes the folder.
func (l *leftovers) temp() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dir, err := os.MkdirTemp("", "ackfloor-demo-")
	l.folder = dir
	return dir, err
}

// kill ends all of it at once. It keeps the lock, so that nothing new begins: the process is about to exit.
func (l *leftovers) kill() {
	l.mu.Lock()
	for _, p := range l.processes {
		p.kill()
	}
	for _, p := range l.processes {
		p.ended(killLimit)
	}
	if l.folder != "" {
		_ = os.RemoveAll(l.folder)
	}
}

// remove removes the folder.
func (l *leftovers) remove() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.folder != "" {
		_ = os.RemoveAll(l.folder)
	}
}
