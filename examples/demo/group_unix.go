//go:build unix && !linux

package main

import (
	"os/exec"
	"syscall"
)

// launch starts a child in a process group of its own: a Ctrl-C in the terminal is the demo's, which stops its children in order.
func launch(cmd *exec.Cmd, _ bool) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}
