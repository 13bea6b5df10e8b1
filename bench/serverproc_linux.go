package main

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel kill the process when this one ends without its clean-up.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
