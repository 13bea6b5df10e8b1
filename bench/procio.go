package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// work is what a process has done since its start, by what /proc says: for the second table, which explains the first. All is 0
// where there is no /proc.
type work struct {
	CPU    time.Duration // in steps of 10 ms
	Reads  uint64        // system calls, of sockets and files
	Writes uint64
}

// workOf reads the work of a process; pid "self" for this one.
func workOf(pid string) work {
	w := work{Reads: procNumber(pid, "syscr:"), Writes: procNumber(pid, "syscw:")}
	all, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return w
	}
	// The fields behind the command's name, which may hold anything but ends with the last bracket: user time is the 12th, in
	// hundredths of a second, system time the 13th.
	f := strings.Fields(string(all[strings.LastIndexByte(string(all), ')')+1:]))
	if len(f) > 12 {
		user, _ := strconv.ParseUint(f[11], 10, 64)
		system, _ := strconv.ParseUint(f[12], 10, 64)
		w.CPU = time.Duration(user+system) * 10 * time.Millisecond
	}
	return w
}

func procNumber(pid, field string) uint64 {
	all, err := os.ReadFile("/proc/" + pid + "/io")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(all)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}

func (w work) since(before work) work {
	return work{CPU: w.CPU - before.CPU, Reads: w.Reads - before.Reads, Writes: w.Writes - before.Writes}
}

// workTable tells where the time goes: the worker's and the server's work for 1,000 messages.
func workTable(w *table, opt options, runs map[string][]run) {
	w.title("The same turns: system calls for 1,000 messages, and CPU of both processes in µs a message")
	w.row("contestant", "worker CPU", "reads", "writes", "server CPU", "reads", "writes")
	per := func(figure func(run) float64, scale float64) func(run) float64 {
		return func(r run) float64 { return scale * figure(r) / float64(r.n) }
	}
	for _, who := range opt.who {
		rs := runs[who.label()]
		col := func(scale float64, format string, figure func(run) float64) string {
			return fmt.Sprintf(format, medianOf(rs, per(figure, scale)))
		}
		w.row(who.label(),
			col(1, "%.2f", func(r run) float64 { return float64(r.Usage.CPU.Microseconds()) }),
			col(1000, "%.1f", func(r run) float64 { return float64(r.Work.Reads) }),
			col(1000, "%.1f", func(r run) float64 { return float64(r.Work.Writes) }),
			col(1, "%.2f", func(r run) float64 { return float64(r.server.CPU.Microseconds()) }),
			col(1000, "%.1f", func(r run) float64 { return float64(r.server.Reads) }),
			col(1000, "%.1f", func(r run) float64 { return float64(r.server.Writes) }))
	}
	w.flush()
}
