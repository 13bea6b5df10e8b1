package figures

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// shown are the modules whose versions belong beside the figures.
var shown = []string{"github.com/nats-io/nats.go", "github.com/ThreeDotsLabs/watermill", "github.com/ThreeDotsLabs/watermill-nats/v2", "github.com/synadia-io/orbit.go/pcgroups", "modernc.org/sqlite"}

// Here is this machine, with the version of its nats-server.
func Here(server string) Machine {
	m := Machine{CPU: "unknown CPU", CPUs: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Server: server, Versions: map[string]string{}}
	if v := field("/proc/cpuinfo", "model name"); v != "" {
		m.CPU = v
	}
	if v := strings.Fields(field("/proc/meminfo", "MemTotal")); len(v) > 0 {
		kb, _ := strconv.ParseFloat(v[0], 64)
		m.Memory = float64(int(kb/(1<<20)*10)) / 10
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			for _, name := range shown {
				if dep.Path == name {
					m.Versions[name] = dep.Version
				}
			}
		}
	}
	return m
}

// Load is the number of processes that ran or wanted to, on average over the last minute; 0 where there is no /proc.
func Load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	load, _, _ := strings.Cut(string(text), " ")
	v, _ := strconv.ParseFloat(load, 64)
	return v
}

// field is the value of the first line "name : value" of a file.
func field(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// String is the machine in a line.
func (m Machine) String() string {
	return fmt.Sprintf("%d x %s, %.0f GiB, %s, %s, nats-server %s", m.CPUs, m.CPU, m.Memory, m.System, m.Go, m.Server)
}
