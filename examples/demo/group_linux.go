package main

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// launch starts a child in a process group of its own: a Ctrl-C in the terminal is the demo's, which stops its children in order. One that follows gets a SIGTERM when the
// demo has died without a chance to stop it; if it prints then, it ends on the spot, as nobody reads that.
func launch(cmd *exec.Cmd, follows bool) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if follows {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
	}
	result := make(chan error)
	launcher() <- func() { result <- cmd.Start() }
	return <-result
}

// launcher is where children are started: Linux sends the signal of a parent's death when the thread ends that started the child, so this one lives as long as the process.
var launcher = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})
