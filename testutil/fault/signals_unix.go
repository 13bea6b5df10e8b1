//go:build unix

package fault

import (
	"os"
	"syscall"
)

func hangSignals() (stop, cont os.Signal, err error) { return syscall.SIGSTOP, syscall.SIGCONT, nil }

func lameDuckSignal() (os.Signal, error) { return syscall.SIGUSR2, nil }

func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return -int(status.Signal())
	}
	return state.ExitCode()
}
