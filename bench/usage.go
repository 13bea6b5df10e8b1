package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has used since its start.
type usage struct {
	CPU     time.Duration
	Mallocs uint64
	Bytes   uint64
}

func used() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{CPU: cpuTime(), Mallocs: m.Mallocs, Bytes: m.TotalAlloc}
}

func (u usage) since(before usage) usage {
	return usage{CPU: u.CPU - before.CPU, Mallocs: u.Mallocs - before.Mallocs, Bytes: u.Bytes - before.Bytes}
}

// rss and peakRSS are the resident memory of this process in bytes, now and at the most; 0 where there is no /proc. Not the
// maximum that getrusage tells: Linux starts that with the parent's.
func rss() uint64     { return procStatus("VmRSS:") }
func peakRSS() uint64 { return procStatus("VmHWM:") }

func procStatus(field string) uint64 { return statusOf("self", field) }

func statusOf(pid, field string) uint64 {
	all, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(all)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kb, _ := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb * 1024
		}
	}
	return 0
}

// liveHeap is what is left of the heap after a collection.
func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
