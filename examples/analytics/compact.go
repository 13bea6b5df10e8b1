package main

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	small    = 4 << 20 // bytes; a larger file is left alone
	tooMany  = 16      // small files of an hour that goes on
	settleIn = 5 * time.Minute
)

// compact merges the small files of an hour into one: as soon as there are many of them, and when the hour has been over for a while. It may be done twice, cut
// short, or done by two processes at once: a file is removed only when one with all of its messages is on disk, and the name of a file stands for its messages,
// so that a result is never taken for one of the files that went into it.
func (s *store) compact(ctx context.Context, now time.Time) error {
	all, err := s.files()
	if err != nil {
		return err
	}
	var faults []error
	for _, hour := range byHour(all) {
		some := slices.DeleteFunc(slices.Clone(hour), func(f file) bool { return f.size >= small })
		over := now.Sub(hour[0].hour) > time.Hour+settleIn
		if len(some) < 2 || len(some) < tooMany && !over {
			continue
		}
		// A damaged file keeps its hour as it is, and no other.
		if err := s.mergeInto(ctx, some); err != nil && !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(faults...)
}

// mergeInto writes one file with the rows of all, and removes them.
func (s *store) mergeInto(ctx context.Context, all []file) error {
	var seen merged
	name, err := s.write(until(ctx, s.merge(all, &seen)))
	if err != nil {
		return err
	}
	return s.alone(func() error {
		var faults []error
		for _, f := range all {
			if f.name == name { // the others were left when somebody was killed here
				continue
			}
			if err := os.Remove(filepath.Join(s.dir, f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				faults = append(faults, err)
			}
		}
		return errors.Join(faults...)
	})
}

// byHour parts files, which come by hour.
func byHour(all []file) (hours [][]file) {
	for begin, i := 0, 1; i <= len(all); i++ {
		if i == len(all) || !all[i].hour.Equal(all[begin].hour) {
			hours = append(hours, all[begin:i])
			begin = i
		}
	}
	return hours
}

// until ends rows with an error when ctx ends.
func until(ctx context.Context, rows iter.Seq2[row, error]) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		n := 0
		for r, err := range rows {
			if n++; n%1024 == 0 && ctx.Err() != nil {
				yield(row{}, context.Cause(ctx))
				return
			}
			if !yield(r, err) {
				return
			}
		}
	}
}
