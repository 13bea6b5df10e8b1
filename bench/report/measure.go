package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
)

// measure runs the parts one after another, each as a process of bench, and keeps their results. One that fails does not keep the others from running; what it has measured
// until then is kept if there was nothing yet.
func measure(ctx context.Context, opt options) error {
	tmp, err := os.MkdirTemp("", "ackfloor-report-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	bench := opt.bench
	if bench == "" {
		bench = filepath.Join(tmp, "bench")
		cmd := exec.CommandContext(ctx, "go", "build", "-o", bench, "github.com/ackfloor/ackfloor/bench")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building bench: %w\n%s", err, out)
		}
	}
	end := time.Now().Add(opt.budget)
	var failed []error
	for _, p := range parts {
		if opt.only != nil && !slices.Contains(opt.only, p.mode) {
			continue
		}
		left := time.Until(end).Round(time.Second)
		if !opt.quick && left < p.takes/2 {
			failed = append(failed, fmt.Errorf("%s: not measured: it takes about %v, and %v are left of %v", p.mode, p.takes, max(0, left), opt.budget))
			continue
		}
		fmt.Fprintf(opt.log, "== %s: about %v, %v left\n", p.mode, p.takes, left)
		began := time.Now()
		err := p.measure(ctx, opt, bench, tmp, left)
		fmt.Fprintf(opt.log, "== %s: took %v\n", p.mode, time.Since(began).Round(time.Second))
		if ctx.Err() != nil {
			return errors.Join(append(failed, err)...)
		}
		if err != nil {
			fmt.Fprintf(opt.log, "== %s: %v\n", p.mode, err)
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// measure runs one part and keeps what it has measured.
func (p part) measure(ctx context.Context, opt options, bench, tmp string, left time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	args := append([]string{"-mode", p.mode}, p.args...)
	if opt.quick {
		args = append([]string{"-mode", p.mode}, p.quick...)
	}
	args = append(args, "-json", tmp, "-dir", tmp)
	if opt.server != "" {
		args = append(args, "-server", opt.server)
	}
	cmd := exec.CommandContext(limited, bench, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it writes what it has
	cmd.WaitDelay = 30 * time.Second
	cmd.Stdout, cmd.Stderr = opt.log, opt.log
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s: %w", p.mode, err)
	}
	results, readErr := figures.Read(tmp, []string{p.mode})
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	for _, r := range results {
		if r.Mode != p.mode {
			continue
		}
		if _, statErr := os.Stat(filepath.Join(opt.results, p.mode+".json")); r.Failed != "" && statErr == nil {
			return errors.Join(err, fmt.Errorf("%s: the figures of an earlier run stay", p.mode))
		}
		return errors.Join(err, figures.Write(opt.results, r))
	}
	return err
}
