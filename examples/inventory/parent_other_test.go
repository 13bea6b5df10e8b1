//go:build unix && !linux

package main

import "syscall"

// endWithParent is for Linux: elsewhere a process may outlive a test that was killed.
func endWithParent(a *syscall.SysProcAttr) *syscall.SysProcAttr { return a }
