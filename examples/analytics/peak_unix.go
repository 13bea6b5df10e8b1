//go:build unix

package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// peak tells the most memory that a process had at once.
func peak(p *os.ProcessState) string {
	usage, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return "its peak memory is not known here"
	}
	bytes := int64(usage.Maxrss)
	if runtime.GOOS != "darwin" && runtime.GOOS != "ios" {
		bytes <<= 10 // elsewhere it is in KiB
	}
	return fmt.Sprintf("peak memory %d MiB", bytes>>20)
}
