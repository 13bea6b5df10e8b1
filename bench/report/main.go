// Command report measures everything that bench can measure and writes docs/FIGURES.md, the charts in docs/figures, and the tables in README.md and docs/SCALING.md.
//
//	go run ./bench/report                        measure, then write: about 25 minutes, with nothing else running
//	go run ./bench/report -only faults,latency   measure these, keep the figures of all others, write
//	go run ./bench/report -run                   measure only: into bench/results
//	go run ./bench/report -from bench/results    write only, from figures that were kept
//	go run ./bench/report -quick                 all of it with small numbers, into a temporary directory, to see that it works
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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
)

// options are those of the command.
type options struct {
	out     string   // the repository's top, or where a copy of its pages goes
	results string   // where figures are kept
	only    []string // parts; nil for all
	budget  time.Duration
	quick   bool
	measure bool
	write   bool
	bench   string // the bench binary; "" to build it
	server  string // for bench
	log     io.Writer
}

func main() {
	opt, err := parseOptions(os.Args[1:])
	if err == flag.ErrHelp {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = run(ctx, opt)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func parseOptions(args []string) (options, error) {
	opt := options{measure: true, write: true, log: os.Stderr}
	f := flag.NewFlagSet("report", flag.ContinueOnError)
	f.StringVar(&opt.out, "out", ".", "the top of the repository, or a directory for a copy of the pages")
	f.StringVar(&opt.results, "results", "", "where figures are kept; without it bench/results of -out")
	only := f.String("only", "", "parts to measure, comma-separated: "+strings.Join(partNames(), ", "))
	from := f.String("from", "", "measure nothing: write from the figures in this directory")
	runOnly := f.Bool("run", false, "measure, and write no pages")
	f.DurationVar(&opt.budget, "budget", 25*time.Minute, "how long to measure at the most; parts for which there is no time keep the figures that they have")
	f.BoolVar(&opt.quick, "quick", false, "small numbers: to see that it works, not for figures")
	f.StringVar(&opt.bench, "bench", "", "a binary of bench; without it one is built")
	f.StringVar(&opt.server, "server", "", "a nats-server binary; without it bench builds one, once on a machine")
	if err := f.Parse(args); err != nil {
		return opt, err
	}
	if f.NArg() > 0 {
		return opt, fmt.Errorf("there are no arguments but flags: %q", f.Args())
	}
	given := map[string]bool{}
	f.Visit(func(g *flag.Flag) { given[g.Name] = true })
	if *only != "" {
		opt.only = strings.Split(*only, ",")
		for _, name := range opt.only {
			if !slices.Contains(partNames(), name) {
				return opt, fmt.Errorf("there is no part %q", name)
			}
		}
	}
	if *from != "" {
		if *runOnly || *only != "" {
			return opt, errors.New("-from measures nothing, -run and -only do")
		}
		opt.measure, opt.results = false, *from
	}
	if opt.quick && !given["out"] { // not in place of real figures
		dir, err := os.MkdirTemp("", "ackfloor-figures-")
		if err != nil {
			return opt, err
		}
		opt.out = dir
		fmt.Fprintln(opt.log, "writing into", dir)
	}
	if opt.results == "" {
		opt.results = filepath.Join(opt.out, "bench", "results")
	}
	opt.write = !*runOnly
	return opt, nil
}

// run does what the options say. What could be measured is written, also when something could not.
func run(ctx context.Context, opt options) error {
	var failed error
	if opt.measure {
		failed = measure(ctx, opt)
	}
	if !opt.write {
		return failed
	}
	results, err := figures.Read(opt.results, partNames())
	if len(results) > 0 {
		err = errors.Join(err, writePages(opt, results))
	}
	return errors.Join(failed, err)
}

// writePages writes the page, its charts, and the tables in README.md and docs/SCALING.md where those have places for them.
func writePages(opt options, results []figures.Result) error {
	docs := filepath.Join(opt.out, "docs")
	dir := filepath.Join(docs, "figures")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	drawn := map[string]bool{}
	var faults []error
	for _, r := range results {
		for _, t := range r.Tables {
			for _, c := range t.Charts {
				drawn[c.Name+".svg"] = true
				if err := drawChart(filepath.Join(dir, c.Name+".svg"), c); err != nil {
					faults = append(faults, fmt.Errorf("chart %s: %w", c.Name, err))
				}
			}
		}
	}
	old, _ := filepath.Glob(filepath.Join(dir, "*.svg"))
	for _, file := range old {
		if !drawn[filepath.Base(file)] { // of a part that has no such chart any more
			faults = append(faults, os.Remove(file))
		}
	}
	if err := os.WriteFile(filepath.Join(docs, "FIGURES.md"), []byte(page(results)), 0o644); err != nil {
		faults = append(faults, err)
	}
	blocks := blocksOf(results)
	for _, file := range []string{"README.md", filepath.Join("docs", "SCALING.md")} {
		faults = append(faults, fillIn(filepath.Join(opt.out, file), blocks))
	}
	return errors.Join(faults...)
}
