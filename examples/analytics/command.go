package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
)

const usage = `analytics                                            the service
analytics -report [-dir folder] [-hours n] [-out folder]   a summary of the files, of all hours or of the newest n
analytics -bench events [-profile file]              a measurement, in a folder of its own

  ANALYTICS_DIR      the folder of the files (.ackfloor/analytics)
  ANALYTICS_PROFILE  a file for a CPU profile

`

// command is -report and -bench.
func command(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("analytics", flag.ContinueOnError)
	set.SetOutput(io.Discard) // the error says it
	var (
		_       = set.Bool("report", false, "make a summary of the files")
		dir     = set.String("dir", cmp.Or(os.Getenv(dirVariable), defaultDir), "the folder of the files")
		out     = set.String("out", "", "the `folder` of the report, which must be there; that of the files if it is empty")
		hours   = set.Int("hours", 0, "the newest `hours` that have events; 0 for all")
		bench   = set.Int("bench", 0, "measure with this many `events`")
		profile = set.String("profile", "", "with -bench: a `file` for a CPU profile of the service")
	)
	if err := set.Parse(args); err != nil {
		return &configError{fmt.Errorf("analytics: %w", err)}
	}
	if set.NArg() > 0 || *hours < 0 || *bench < 0 {
		return &configError{fmt.Errorf("analytics: it takes -report [-dir folder] [-hours n] [-out folder], or -bench events [-profile file]")}
	}
	if *bench > 0 {
		return benchmark(ctx, *bench, *profile, os.Stdout)
	}
	return report(ctx, &store{dir: *dir}, *hours, &store{dir: cmp.Or(*out, *dir)}, os.Stdout)
}

// report sums up the newest hours, or all with limit 0, writes report.txt, report.json and report.png to a folder, and the text to a writer. The service may run
// meanwhile.
func report(ctx context.Context, s *store, limit int, out *store, to io.Writer) error {
	c := counter{store: s}
	hours, files, err := c.count(ctx, limit)
	if err != nil {
		return err
	}
	sum := summarise(hours, files)
	if err := out.save(ofReport, sum); err != nil {
		return err
	}
	return sum.text(to)
}

// profile begins a CPU profile where a file is named.
func profile(path string) (stop func() error, err error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, &configError{err}
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
