package fault

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel kill the process when this one ends without its clean-up, as at the time limit of a test.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
