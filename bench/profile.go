package main

import (
	"os"
	"runtime"
	"runtime/pprof"
)

// startProfiles starts what the order asks for; end writes it. A profiled run costs more: its figures are for its own sites only.
func startProfiles(o order) (end func() error, err error) {
	if o.memProfile != "" {
		runtime.MemProfileRate = 4096 // finer than the default, so that sites of 16 bytes a message are seen
	}
	var cpu *os.File
	if o.cpuProfile != "" {
		if cpu, err = os.Create(o.cpuProfile); err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(cpu); err != nil {
			return nil, err
		}
	}
	return func() error {
		if cpu != nil {
			pprof.StopCPUProfile()
			if err := cpu.Close(); err != nil {
				return err
			}
		}
		if o.memProfile == "" {
			return nil
		}
		mem, err := os.Create(o.memProfile)
		if err != nil {
			return err
		}
		defer mem.Close()
		runtime.GC() // the profile is as of the last collection
		return pprof.Lookup("allocs").WriteTo(mem, 0)
	}, nil
}
