package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options are those of the command.
type options struct {
	modes      []mode
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
	faultsN        int      // faults: messages of the first schedule; the others have theirs in proportion
	faultsWho      []string // faults: workers; nil for all
	schedules      []string // faults: names; nil for all
	seeds          []uint64
	growthN        int           // growth: the longest stream
	processes      int           // growth, scaling: the most processes
	lasting        time.Duration // growth, scaling, runners, held: about how long a turn is
	ends           bool          // growth, scaling: only the ends of each curve
	server         string
	dir            string
	json           string
	cpuProfile     string
	memProfile     string
	log            io.Writer // for progress
	args           []string  // as they were given
}

// builds are the builds whose ackfloor contestants run: "" is this one.
func (o options) builds() []string {
	if o.against == "" {
		return []string{""}
	}
	return []string{"", o.against}
}

func (o options) progress(format string, args ...any) { fmt.Fprintf(o.log, format+"\n", args...) }

func parseOptions(args []string) (options, error) {
	opt := options{log: os.Stderr, args: args}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	var more []string
	for _, m := range modes {
		if !m.usual {
			more = append(more, m.name)
		}
	}
	chosen := f.String("mode", "all", "what to measure: throughput, failures, latency, memory, drain, comma-separated, or all; or what is not among all: "+strings.Join(more, ", "))
	only := f.String("only", "", "contestants, comma-separated; without it all (ratios need consume)")
	f.StringVar(&opt.against, "against", "", "another build of this command, such as one of an earlier commit: its ackfloor contestants run too, as rows with a *")
	handlers := f.String("handlers", "none,wait,2ms", "failures: what the handlers do: none, wait (150 µs), 2ms, hash, comma-separated")
	seeds := f.String("seeds", "1", "faults: seeds of the schedules, comma-separated; each is a run")
	schedules := f.String("schedules", "", "faults: schedules, comma-separated; without it all")
	workers := f.String("workers", "", "faults: workers, comma-separated; without it all")
	opt.numbers(f)
	f.StringVar(&opt.server, "server", "", "a nats-server binary; without it one is built, once on a machine")
	f.StringVar(&opt.dir, "dir", "", "where the server's files go; without it the directory for temporary files")
	f.StringVar(&opt.json, "json", "", "write what each mode has measured into this directory, as <mode>.json")
	f.StringVar(&opt.cpuProfile, "cpuprofile", "", "write a CPU profile of each turn into this directory (the figures suffer)")
	f.StringVar(&opt.memProfile, "memprofile", "", "write an allocation profile of each turn into this directory (the figures suffer, more so)")
	if err := f.Parse(args); err != nil {
		return opt, err
	}
	var wrong []string
	f.VisitAll(func(g *flag.Flag) {
		if n, err := strconv.Atoi(g.Value.String()); err == nil && n < 1 {
			wrong = append(wrong, g.Name)
		}
	})
	if f.NArg() > 0 || len(wrong) > 0 || min(opt.latencyFor, opt.limitFor, opt.lasting) < time.Millisecond {
		return opt, fmt.Errorf("every number has to be above 0, and there are no arguments but flags %v", wrong)
	}
	if err := opt.choose(*chosen, *only, *handlers); err != nil {
		return opt, err
	}
	if err := opt.chooseFaults(*schedules, *workers, *seeds); err != nil {
		return opt, err
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

// numbers are the flags that say how much.
func (o *options) numbers(f *flag.FlagSet) {
	f.IntVar(&o.n, "n", 100_000, "throughput: messages a turn")
	f.IntVar(&o.rounds, "rounds", 15, "throughput: turns of each contestant")
	f.IntVar(&o.failuresN, "failures-n", 100_000, "failures: messages a turn")
	f.IntVar(&o.failuresRounds, "failures-rounds", 7, "failures: turns of each")
	f.IntVar(&o.turns, "latency-rounds", 5, "latency: turns of each contestant")
	f.DurationVar(&o.latencyFor, "latency-for", 10*time.Second, "latency: how long a turn is")
	f.IntVar(&o.memoryN, "memory-n", 1_000_000, "memory: messages")
	f.IntVar(&o.drains, "drains", 20, "drain: how many")
	f.IntVar(&o.keysN, "keys-n", 10_000, "keys: messages a turn")
	f.IntVar(&o.batchesN, "batches-n", 200_000, "batches: messages a turn")
	f.IntVar(&o.batchesRounds, "batches-rounds", 5, "batches: turns of each")
	f.DurationVar(&o.limitFor, "limit-for", 20*time.Second, "limit: how long a phase is")
	f.IntVar(&o.limitN, "limit-n", 50_000, "limit: messages a turn")
	f.IntVar(&o.limitRounds, "limit-rounds", 5, "limit: turns of each gate")
	f.IntVar(&o.faultsN, "faults-n", 20_000, "faults: messages of the first schedule; the others have theirs in proportion")
	f.IntVar(&o.growthN, "growth-n", 10_000_000, "growth: the longest stream")
	f.IntVar(&o.processes, "processes", 16, "growth, scaling: the most processes")
	f.DurationVar(&o.lasting, "lasting", 2*time.Second, "growth, scaling, runners, held: about how long a turn is")
	f.BoolVar(&o.ends, "ends", false, "growth, scaling: only the ends of each curve")
}

// choose takes the modes, contestants and handlers that are named.
func (o *options) choose(chosen, only, handlers string) error {
	named := strings.Split(chosen, ",")
	for _, m := range modes {
		if m.usual && chosen == "all" || slices.Contains(named, m.name) {
			o.modes = append(o.modes, m)
		}
	}
	if len(o.modes) == 0 {
		return fmt.Errorf("there is no mode %q", chosen)
	}
	o.who = contestants
	if only != "" {
		o.who = nil
		for name := range strings.SplitSeq(only, ",") {
			who, err := contestantNamed(name)
			if err != nil {
				return err
			}
			o.who = append(o.who, who)
		}
	}
	if o.against != "" {
		o.who = against(o.who, o.against)
	}
	for work := range strings.SplitSeq(handlers, ",") {
		if works[work] == nil {
			return fmt.Errorf("there is no handler %q", work)
		}
		o.works = append(o.works, work)
	}
	return nil
}

// chooseFaults takes the schedules, workers and seeds of the mode faults.
func (o *options) chooseFaults(named, workers, seeds string) error {
	if named != "" {
		o.schedules = strings.Split(named, ",")
	}
	for _, name := range o.schedules {
		if !slices.ContainsFunc(schedules, func(s schedule) bool { return s.name == name }) {
			return fmt.Errorf("there is no schedule %q", name)
		}
	}
	if workers != "" {
		o.faultsWho = strings.Split(workers, ",")
	}
	for _, name := range o.faultsWho {
		if _, err := faultWorkerNamed(name); err != nil {
			return err
		}
	}
	for text := range strings.SplitSeq(seeds, ",") {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fmt.Errorf("seed %q: %w", text, err)
		}
		o.seeds = append(o.seeds, seed)
	}
	return nil
}
