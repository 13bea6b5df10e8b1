// Command bench measures ackfloor against nats.go's Consume, side by side: one run, one nats-server in a process of its own, every
// contestant in one of its own, in turn, round after round. See README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"
)

// options are those of the command.
type options struct {
	modes      []string
	who        []contestant
	n          int
	rounds     int
	turns      int // latency: rounds
	latencyFor time.Duration
	memoryN    int
	drains     int
	against    string // another build, "" without

	works          []string // failures: handlers
	failuresN      int
	failuresRounds int
	keysN          int // keys: messages a turn
	batchesN       int // batches: messages a turn
	batchesRounds  int
	limitFor       time.Duration // limit: how long a phase is
	limitN         int
	limitRounds    int
	server         string
	dir            string
	cpuProfile     string
	memProfile     string
	log            io.Writer // for progress
}

// builds are the builds whose ackfloor contestants run: "" is this one.
func (o options) builds() []string {
	if o.against == "" {
		return []string{""}
	}
	return []string{"", o.against}
}

func (o options) progress(format string, args ...any) { fmt.Fprintf(o.log, format+"\n", args...) }

func main() {
	if len(os.Args) > 1 && os.Args[1] == childWord {
		exit(childMain(os.Args[2:], os.Stdin, os.Stdout))
		return
	}
	opt, err := parseOptions(os.Args[1:])
	if err == flag.ErrHelp {
		return
	}
	exit(err)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(bench(ctx, opt, os.Stdout))
}

func parseOptions(args []string) (options, error) {
	opt := options{log: os.Stderr}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	modes := f.String("mode", "all", "what to measure: throughput, failures, latency, memory, drain, comma-separated, or all; or keys, batches or limit, which are not among all")
	only := f.String("only", "", "contestants, comma-separated; without it all (ratios need consume)")
	f.StringVar(&opt.against, "against", "", "another build of this command, such as one of an earlier commit: its ackfloor contestants run too, as rows with a *")
	f.IntVar(&opt.n, "n", 100_000, "throughput: messages a turn")
	f.IntVar(&opt.rounds, "rounds", 15, "throughput: turns of each contestant")
	handlers := f.String("handlers", "none,wait", "failures: what the handlers do: none, wait, hash, comma-separated")
	f.IntVar(&opt.failuresN, "failures-n", 100_000, "failures: messages a turn")
	f.IntVar(&opt.failuresRounds, "failures-rounds", 7, "failures: turns of each")
	f.IntVar(&opt.turns, "latency-rounds", 5, "latency: turns of each contestant")
	f.DurationVar(&opt.latencyFor, "latency-for", 10*time.Second, "latency: how long a turn is")
	f.IntVar(&opt.memoryN, "memory-n", 1_000_000, "memory: messages")
	f.IntVar(&opt.drains, "drains", 20, "drain: how many")
	f.IntVar(&opt.keysN, "keys-n", 10_000, "keys: messages a turn")
	f.IntVar(&opt.batchesN, "batches-n", 200_000, "batches: messages a turn")
	f.IntVar(&opt.batchesRounds, "batches-rounds", 5, "batches: turns of each")
	f.DurationVar(&opt.limitFor, "limit-for", 20*time.Second, "limit: how long a phase is")
	f.IntVar(&opt.limitN, "limit-n", 50_000, "limit: messages a turn")
	f.IntVar(&opt.limitRounds, "limit-rounds", 5, "limit: turns of each gate")
	f.StringVar(&opt.server, "server", "", "a nats-server binary; without it one is built, once on a machine")
	f.StringVar(&opt.dir, "dir", "", "where the server's files go; without it the directory for temporary files")
	f.StringVar(&opt.cpuProfile, "cpuprofile", "", "write a CPU profile of each turn into this directory (the figures suffer)")
	f.StringVar(&opt.memProfile, "memprofile", "", "write an allocation profile of each turn into this directory (the figures suffer, more so)")
	if err := f.Parse(args); err != nil {
		return opt, err
	}
	if f.NArg() > 0 || min(opt.n, opt.rounds, opt.failuresN, opt.failuresRounds, opt.turns, opt.memoryN, opt.drains, opt.keysN, opt.batchesN, opt.batchesRounds, opt.limitN, opt.limitRounds) < 1 ||
		min(opt.latencyFor, opt.limitFor) < time.Millisecond {
		return opt, fmt.Errorf("every number has to be above 0, and there are no arguments but flags")
	}
	for _, m := range measures {
		if *modes == "all" || slices.Contains(strings.Split(*modes, ","), m.mode) {
			opt.modes = append(opt.modes, m.mode)
		}
	}
	for _, m := range []string{modeKeys, modeBatches, modeLimit} {
		if slices.Contains(strings.Split(*modes, ","), m) {
			opt.modes = append(opt.modes, m)
		}
	}
	opt.who = contestants
	if *only != "" {
		opt.who = nil
		for name := range strings.SplitSeq(*only, ",") {
			who, err := contestantNamed(name)
			if err != nil {
				return opt, err
			}
			opt.who = append(opt.who, who)
		}
	}
	if opt.against != "" {
		opt.who = against(opt.who, opt.against)
	}
	for work := range strings.SplitSeq(*handlers, ",") {
		if works[work] == nil {
			return opt, fmt.Errorf("there is no handler %q", work)
		}
		opt.works = append(opt.works, work)
	}
	if len(opt.modes) == 0 {
		return opt, fmt.Errorf("there is no mode %q", *modes)
	}
	for _, dir := range []string{opt.cpuProfile, opt.memProfile} {
		if dir != "" {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return opt, err
			}
		}
	}
	return opt, nil
}

// measures are the modes, in the order in which they run.
var measures = []struct {
	mode  string
	run   func(context.Context, *bed, options) (map[string][]run, error)
	table func(*table, options, map[string][]run)
}{
	{modeThroughput, throughput, throughputTable},
	{modeFailures, failures, failuresTable},
	{modeLatency, latency, latencyTable},
	{modeMemory, memory, memoryTable},
	{modeDrain, drain, drainTable},
}

// bench measures and writes the tables to out.
func bench(ctx context.Context, opt options, out io.Writer) error {
	binary, err := serverBinary(opt.server)
	if err != nil {
		return err
	}
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
	t := newTable(out)
	fmt.Fprintf(out, "nats-server %s, %s, %s/%s, %d CPUs\n", b.nc.ConnectedServerVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	for _, who := range opt.who {
		fmt.Fprintf(out, "  %s: %s\n", who.label(), who.what)
	}
	for _, m := range measures {
		if !slices.Contains(opt.modes, m.mode) {
			continue
		}
		runs, err := m.run(ctx, b, opt)
		if err != nil {
			return err
		}
		m.table(t, opt, runs)
	}
	if slices.Contains(opt.modes, modeKeys) {
		if err := ordered(ctx, b, opt, t); err != nil {
			return err
		}
	}
	if slices.Contains(opt.modes, modeBatches) {
		if err := batched(ctx, b, opt, t); err != nil {
			return err
		}
	}
	if slices.Contains(opt.modes, modeLimit) {
		if err := limits(ctx, b, opt, t); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\n%d aims missed\n", t.missed)
	return t.err()
}
