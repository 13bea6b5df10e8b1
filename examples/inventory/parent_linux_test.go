package main

import "syscall"

// endWithParent makes the kernel kill a process when this one ends without its clean-up, as at the time limit of a test.
func endWithParent(a *syscall.SysProcAttr) *syscall.SysProcAttr {
	a.Pdeathsig = syscall.SIGKILL
	return a
}
