package drivers

import "syscall"

// endWithParent makes the kernel kill a process when this one ends without its clean-up, as at the time limit of a test.
func endWithParent(cred *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: cred, Pdeathsig: syscall.SIGKILL}
}
