// Command bench measures ackfloor against nats.go's Consume and other libraries, side by side: one run, one nats-server in a process of its own, every
// contestant in one of its own, in turn, round after round. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
	"github.com/ackfloor/ackfloor/testutil/fault"
)

func main() {
	fault.RunChild(programs())
	if len(os.Args) > 1 && os.Args[1] == childWord {
		exit(childMain(os.Args[2:], os.Stdin, os.Stdout))
		return
	}
	opt, err := parseOptions(os.Args[1:])
	if err == flag.ErrHelp {
		return
	}
	exit(err)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(bench(ctx, opt, os.Stdout))
}

// mode is one thing to measure.
type mode struct {
	name  string
	usual bool // runs without being asked for
	run   func(context.Context, *bed, options, *table) error
}

// modes are in the order in which they run.
var modes = allModes()

func allModes() []mode {
	// measured is a mode whose contestants run first, and whose table is written then.
	measured := func(run func(context.Context, *bed, options) (map[string][]run, error), write func(*table, options, map[string][]run)) func(context.Context, *bed, options, *table) error {
		return func(ctx context.Context, b *bed, opt options, t *table) error {
			runs, err := run(ctx, b, opt)
			if err != nil {
				return err
			}
			write(t, opt, runs)
			return nil
		}
	}
	return []mode{
		{modeThroughput, true, measured(throughput, throughputTable)},
		{modeFailures, true, measured(failures, failuresTable)},
		{modeLatency, true, measured(latency, latencyTable)},
		{modeMemory, true, measured(memory, memoryTable)},
		{modeDrain, true, measured(drain, drainTable)},
		{modeKeys, false, ordered},
		{modeBatches, false, batched},
		{modeLimit, false, limits},
		{modeFaults, false, faults},
		{modeRunners, false, manyRunners},
		{modeHeld, false, held},
		{modeGrowth, false, growth},
		{modeScaling, false, scaling},
	}
}

// bench measures and writes the tables to out.
func bench(ctx context.Context, opt options, out io.Writer) error {
	binary, err := serverBinary(opt.server)
	if err != nil {
		return err
	}
	opt.server = binary
	url, pid, stop, err := startServer(binary, opt.dir)
	if err != nil {
		return err
	}
	defer stop()
	b, err := newBed(url, pid)
	if err != nil {
		return err
	}
	defer b.nc.Close()
	machine := figures.Here(b.nc.ConnectedServerVersion())
	fmt.Fprintln(out, machine)
	for _, who := range opt.who {
		fmt.Fprintf(out, "  %s: %s\n", who.label(), who.what)
	}
	missed := 0
	var faults []error
	for _, m := range opt.modes {
		t := newTable(out)
		began := time.Now()
		r := figures.Result{Mode: m.name, Command: command(opt, m.name), At: began.UTC().Truncate(time.Second), Load: figures.Load(), Machine: machine}
		t.save = func() { // of what a mode had when it did not come to its end
			r.Tables, r.Failed = t.kept, "it was broken off"
			if opt.json != "" {
				_ = figures.Write(opt.json, r)
			}
		}
		err := m.run(ctx, b, opt, t)
		r.Failed = ""
		if err != nil {
			err = fmt.Errorf("%s: %w", m.name, err)
			r.Failed = err.Error()
		}
		missed += t.missed
		r.Tables, r.Took = t.kept, time.Since(began).Round(100*time.Millisecond).Seconds()
		faults = append(faults, err, t.err())
		if opt.json != "" {
			faults = append(faults, figures.Write(opt.json, r))
		}
		if err != nil {
			break
		}
	}
	fmt.Fprintf(out, "\n%d aims missed\n", missed)
	return errors.Join(faults...)
}

// command is what makes the figures of a mode again: the flags as they were given, without those that name this machine's files.
func command(opt options, mode string) string {
	words := []string{"go run ./bench -mode", mode}
	for i := 0; i < len(opt.args); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(opt.args[i], "-"), "=")
		switch name {
		case "mode", "server", "dir", "json", "cpuprofile", "memprofile":
			if !joined {
				i++
			}
			continue
		case "against":
			if !joined && i+1 < len(opt.args) {
				i++
				words = append(words, "-against", filepath.Base(opt.args[i]))
			}
			continue
		}
		words = append(words, opt.args[i])
	}
	return strings.Join(words, " ")
}
