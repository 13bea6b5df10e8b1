package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// view is a row of a page's view; its time follows from its sequence where at is noon: one each second.
func view(sequence uint64, at time.Time) row {
	return row{Sequence: sequence, Published: at.UnixNano(), Subject: "events.page_loaded", Page: fmt.Sprintf("/p%d", sequence%7), Visitor: fmt.Sprintf("v%d", sequence)}
}

func views(sequences ...uint64) (rows []row) {
	for _, n := range sequences {
		rows = append(rows, view(n, noon.Add(time.Duration(n)*time.Second)))
	}
	return rows
}

func newStore(t *testing.T) *store {
	t.Helper()
	s, err := openStore(filepath.Join(t.TempDir(), "files"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *store) mustWrite(t *testing.T, rows []row) {
	t.Helper()
	if err := s.writeBatch(slices.Clone(rows)); err != nil {
		t.Fatal(err)
	}
}

func (s *store) names(t *testing.T) (names []string) {
	t.Helper()
	all, err := s.files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		names = append(names, f.name)
	}
	return names
}

// rows reads all hours, each message once.
func (s *store) rows(t *testing.T) (rows []row, copies int64) {
	t.Helper()
	all, err := s.files()
	if err != nil {
		t.Fatal(err)
	}
	for _, files := range byHour(all) {
		var seen merged
		for r, err := range s.merge(files, &seen) {
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, r)
		}
		copies += seen.copies
	}
	return rows, copies
}

func (s *store) holds(t *testing.T, want []row) {
	t.Helper()
	want = slices.Clone(want)
	slices.SortFunc(want, func(a, b row) int {
		if c := a.hour().Compare(b.hour()); c != 0 {
			return c
		}
		return a.compare(&b)
	})
	got, _ := s.rows(t)
	if !slices.Equal(got, want) {
		t.Fatalf("%d rows are read, want %d\ngot  %.1500s\nwant %.1500s", len(got), len(want), fmt.Sprint(got), fmt.Sprint(want))
	}
}

func TestABatchWrittenTwiceIsOneFile(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	rows := views(1, 2, 4, 6)
	s.mustWrite(t, rows)
	names := s.names(t)
	first, err := os.ReadFile(filepath.Join(s.dir, names[0]))
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(rows)
	s.mustWrite(t, rows)
	again := s.names(t)
	if !slices.Equal(names, again) || len(names) != 1 {
		t.Fatalf("the files are %v, then %v", names, again)
	}
	if !strings.HasPrefix(names[0], "2026-11-30T12_000000000001-000000000006_") {
		t.Errorf("the name is %s", names[0])
	}
	second, err := os.ReadFile(filepath.Join(s.dir, names[0]))
	if err != nil || string(first) != string(second) {
		t.Errorf("the bytes differ, %v", err)
	}
	s.holds(t, rows)
}

// A batch of which a part comes again has the first and the last message of it, and must not take its place.
func TestABatchThatComesAgainInPartLosesNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.mustWrite(t, views(1, 2, 4, 6))
	s.mustWrite(t, views(1, 6))
	s.mustWrite(t, views(4, 6, 7, 9))
	s.holds(t, views(1, 2, 4, 6, 7, 9))
	if _, copies := s.rows(t); copies != 4 {
		t.Errorf("%d copies, want 4", copies)
	}
}

// A stream that was deleted and made anew counts from 1 again: these are other messages.
func TestAStreamMadeAnewIsNotTakenForTheOldOne(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	old := views(1, 2, 3)
	s.mustWrite(t, old)
	for i := range old {
		old[i].Published += int64(10 * time.Minute)
	}
	s.mustWrite(t, old)
	s.holds(t, append(views(1, 2, 3), old...))
}

// Any cuts, any repeats, merges in between that were cut short: each message is read once.
func TestWhateverTheCuts(t *testing.T) {
	t.Parallel()
	for round := range 8 {
		rng := rand.New(rand.NewPCG(7, uint64(round)))
		s := newStore(t)
		var all []row
		for i := range 300 {
			hour := noon.Add(time.Duration(rng.IntN(3)) * 24 * time.Hour) // three hours of three days, all mixed
			all = append(all, view(uint64(i+1), hour.Add(time.Duration(rng.IntN(3600))*time.Second)))
		}
		put := func(some []row) {
			for len(some) > 0 {
				n := min(1+rng.IntN(40), len(some))
				hours := make(map[time.Time][]row)
				for _, r := range some[:n] {
					hours[r.hour()] = append(hours[r.hour()], r)
				}
				for _, rows := range hours {
					s.mustWrite(t, rows)
				}
				some = some[n:]
			}
		}
		put(all)
		for range rng.IntN(4) {
			begin := rng.IntN(len(all))
			again := slices.DeleteFunc(slices.Clone(all[begin:]), func(row) bool { return rng.IntN(3) == 0 })
			put(again)
			if rng.IntN(2) == 0 {
				s.killedAfterAMerge(t, rng)
			}
			if rng.IntN(2) == 0 {
				if err := s.compact(t.Context(), noon.Add(time.Duration(rng.IntN(80))*time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.holds(t, all)
		for range 2 {
			if err := s.compact(t.Context(), noon.AddDate(1, 0, 0)); err != nil {
				t.Fatal(err)
			}
			s.holds(t, all)
			if names := s.names(t); len(names) != 3 {
				t.Fatalf("round %d: after the hours are over: %d files, want 3: %v", round, len(names), names)
			}
		}
		if _, copies := s.rows(t); copies != 0 {
			t.Errorf("round %d: %d copies are left", round, copies)
		}
	}
}

// killedAfterAMerge merges, and then puts back some files that were merged, as a kill in the middle of their removal leaves them.
func (s *store) killedAfterAMerge(t *testing.T, rng *rand.Rand) {
	t.Helper()
	kept := make(map[string][]byte)
	for _, name := range s.names(t) {
		data, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		kept[name] = data
	}
	if err := s.compact(t.Context(), noon.AddDate(1, 0, 0)); err != nil {
		t.Fatal(err)
	}
	for name, data := range kept {
		if rng.IntN(2) == 0 {
			if err := os.WriteFile(filepath.Join(s.dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Two processes may merge, and others write and read, all at once.
func TestSeveralAtOnceOnOneFolder(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const batches, size = 60, 50
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for ctx.Err() == nil {
				if err := s.compact(ctx, noon.AddDate(1, 0, 0)); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	others.Go(func() {
		last := int64(0)
		for ctx.Err() == nil {
			hours, _, err := (&counter{store: s}).count(ctx, 0)
			if errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
				continue // merges without a pause may leave a reader no moment
			}
			if err != nil {
				t.Error(err)
			}
			if n := sum(hours).events; n < last {
				t.Errorf("%d events, after %d", n, last)
			} else {
				last = n
			}
		}
	})
	var want []row
	for b := range batches {
		var rows []row
		for i := range size {
			rows = append(rows, views(uint64(b*size+i+1))...)
		}
		want = append(want, rows...)
		s.mustWrite(t, rows)
		if b%3 == 0 {
			s.mustWrite(t, rows[size/2:])
		}
	}
	cancel()
	others.Wait()
	s.holds(t, want)
	if err := s.compact(t.Context(), noon.AddDate(1, 0, 0)); err != nil {
		t.Fatal(err)
	}
	s.holds(t, want)
}

func TestADamagedFileIsNamedAndNothingIsRemoved(t *testing.T) {
	t.Parallel()
	for what, damage := range map[string]func([]byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"cut off":   func(b []byte) []byte { return b[:len(b)/2] },
		"no footer": func(b []byte) []byte { return b[:len(b)-4] },
		"zeros in the middle": func(b []byte) []byte {
			clear(b[8 : len(b)/2])
			return b
		},
		"another program's": func([]byte) []byte { return []byte(strings.Repeat("PAR1", 100)) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			s.mustWrite(t, views(1, 2, 3))
			s.mustWrite(t, views(4, 5, 6))
			names := s.names(t)
			path := filepath.Join(s.dir, names[0])
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(data), 0o600); err != nil {
				t.Fatal(err)
			}
			err = s.compact(t.Context(), noon.AddDate(1, 0, 0))
			if err == nil || !strings.Contains(err.Error(), names[0]) {
				t.Fatalf("compact = %v; want the name of the file", err)
			}
			if now := s.names(t); !slices.Equal(now, names) {
				t.Errorf("the files are %v, they were %v", now, names)
			}
			if _, _, err := (&counter{store: s}).count(t.Context(), 0); err == nil || !strings.Contains(err.Error(), names[0]) {
				t.Errorf("count = %v; want the name of the file", err)
			}
			if left, _ := filepath.Glob(filepath.Join(s.dir, temporaryPrefix+"*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestOnlyOldTemporaryFilesAreRemoved(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	old, young := filepath.Join(s.dir, temporaryPrefix+"1"), filepath.Join(s.dir, temporaryPrefix+"2")
	for _, path := range []string{old, young} {
		if err := os.WriteFile(path, []byte("PAR1"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-2*leftOver)); err != nil {
		t.Fatal(err)
	}
	if err := s.removeLeftOver(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old one: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("the young one, which a process may be writing: %v", err)
	}
	s.holds(t, nil)
}

func TestRowsOutOfOrderAreRefused(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	rows := views(2, 1)
	_, err := s.write(sequence(rows))
	if err == nil || !strings.Contains(err.Error(), "not behind") {
		t.Errorf("write = %v", err)
	}
}

func sequence(rows []row) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func TestAFolderThatCanNotBeWrittenTo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := openStore(filepath.Join(file, "files"))
	if _, ok := errors.AsType[*configError](err); !ok || !strings.Contains(err.Error(), dirVariable) {
		t.Errorf("openStore = %v; want the variable, and the exit code of a bad setting", err)
	}
}

// What is open at once does not grow with the number of files that don't overlap.
func TestFilesAreOpenedInTheirTurn(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for i := range 40 {
		s.mustWrite(t, views(uint64(2*i+1), uint64(2*i+2)))
	}
	all, err := s.files()
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	var seen merged
	for _, err := range s.merge(all, &seen) {
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, openIn(s.dir))
	}
	if most > 2 {
		t.Errorf("%d files were open at once", most)
	}
}

// openIn counts this process's open files in a folder, where the system tells.
func openIn(dir string) (n int) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if path, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(path, dir+"/") {
			n++
		}
	}
	return n
}
