//go:build unix && !linux

package drivers

import "syscall"

func endWithParent(cred *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: cred}
}
