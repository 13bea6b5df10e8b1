package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ackfloor/ackfloor/examples/internal/shop"
	"github.com/ackfloor/ackfloor/shutdown"
)

const (
	dirVariable     = "ANALYTICS_DIR"
	profileVariable = "ANALYTICS_PROFILE" // a file: the CPU profile of the run
	defaultDir      = ".ackfloor/analytics"
	pauseFor        = 10 * time.Second // until the disk is tried again
)

// open makes the folder and what works on it: the handler of batches, and beside it what tidies the files and sums them up.
func open(_ context.Context, e shop.Env) (shop.Work, error) {
	s, err := openStore(cmp.Or(os.Getenv(dirVariable), filepath.Join(e.Dir, "analytics")))
	if err != nil {
		return shop.Work{}, err
	}
	stopProfile, err := profile(os.Getenv(profileVariable))
	if err != nil {
		return shop.Work{}, err
	}
	w := &writer{store: s, pause: pauseFor, show: shop.Show}
	k := &keeper{store: s, written: w.rows.Load, say: e.Say}
	return shop.Work{
		Batch: w,
		Parts: []shutdown.Part{{Name: "summary", Run: k.run}},
		Close: stopProfile,
	}, nil
}

// openStore makes the folder where it is missing, and finds out before anything is taken from the stream whether files can be made in it.
func openStore(dir string) (*store, error) {
	fail := func(err error) (*store, error) {
		return nil, &configError{fmt.Errorf("analytics: no files can be made in %s: %w; set %s to another folder", dir, err, dirVariable)}
	}
	if err := os.MkdirAll(dir, 0o750); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return fail(err)
	}
	s := &store{dir: dir}
	if err := s.removeLeftOver(time.Now()); err != nil {
		return fail(err)
	}
	err := s.alone(func() error { return nil }) // makes the lock, before there is anything to list
	var f *os.File
	if err == nil {
		f, err = s.temporary()
	}
	if errors.Is(err, syscall.ENOSPC) {
		return s, nil // it may have room by and by: the handler waits for that
	}
	if err != nil {
		return fail(err)
	}
	return s, errors.Join(f.Close(), os.Remove(f.Name()))
}

// configError is one that starting again won't mend.
type configError struct{ error }

func (e *configError) Unwrap() error { return e.error }
func (*configError) ExitCode() int   { return shutdown.ExitConfig }
