package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
)

const (
	hourLayout      = "2006-01-02T15"
	temporaryPrefix = ".writing-"
	leftOver        = time.Hour // a temporary file of that age is nobody's any more
	groupRows       = 100_000   // rows of a row group, which is what a writer has in memory
)

// store is a folder of Parquet files. A file never changes: it gets its name when all of it is on disk, and the name says which messages it holds. So what is
// written twice is one file, and several processes may work on one folder.
type store struct{ dir string }

// file is one of a store's.
type file struct {
	name        string
	hour        time.Time
	first, last uint64 // sequences
	size        int64
}

var nameForm = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d)_(\d{12,20})-(\d{12,20})_[0-9a-f]{16}\.parquet$`)

// fileName names a file by its hour, its first and last sequence, and its set of messages. First and last alone would not do: of a batch of 1, 2 and 6 in which
// only 2 was acknowledged, 1 and 6 come again, and must not take the place of all three.
func fileName(hour time.Time, first, last uint64, set hash.Hash) string {
	return fmt.Sprintf("%s_%012d-%012d_%s.parquet", hour.Format(hourLayout), first, last, hex.EncodeToString(set.Sum(nil)[:8]))
}

// writeBatch writes rows of one hour into one file. It sorts them.
func (s *store) writeBatch(rows []row) error {
	slices.SortFunc(rows, func(a, b row) int { return a.compare(&b) })
	_, err := s.write(func(yield func(row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	})
	return err
}

// write writes rows of one hour, which come by sequence, into one file and returns its name. When it returns nil they outlive a crash of the machine:
// the file was synced before it got its name, and the folder afterwards. An error leaves nothing behind.
func (s *store) write(rows iter.Seq2[row, error]) (name string, err error) {
	f, err := s.temporary()
	if err != nil {
		return "", fmt.Errorf("analytics: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
			err = fmt.Errorf("analytics: writing a file: %w", err)
		}
	}()
	if name, err = encode(f, rows); err != nil {
		return "", err
	}
	if err = f.Sync(); err != nil {
		return "", err
	}
	if err = f.Close(); err != nil {
		return "", err
	}
	if err = s.takeName(f.Name(), filepath.Join(s.dir, name)); err != nil {
		return "", err
	}
	return name, s.sync()
}

// takeName renames a file. Where that takes the place of one with the same messages, nobody lists the folder meanwhile.
func (s *store) takeName(from, to string) error {
	if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
		return os.Rename(from, to)
	}
	return s.alone(func() error { return os.Rename(from, to) })
}

// encode writes rows as Parquet and returns the name that the file is to have. The same rows make the same bytes.
func encode(f *os.File, rows iter.Seq2[row, error]) (name string, err error) {
	out := bufio.NewWriterSize(f, 64<<10)
	w := parquet.NewGenericWriter[row](out,
		parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(groupRows), parquet.CreatedBy("ackfloor-analytics", "1", ""),
		parquet.SortingWriterConfig(parquet.SortingColumns(parquet.Ascending("sequence"))))
	set := sha256.New()
	var first, last row
	var key [16]byte
	n := 0
	some := make([]row, 0, 1000) // handed over together, which is faster
	flush := func() error {
		_, err := w.Write(some)
		some = some[:0]
		return err
	}
	for r, err := range rows {
		if err != nil {
			return "", err
		}
		if n == 0 {
			first = r
		} else if !last.before(&r) {
			return "", fmt.Errorf("row %d is not behind row %d: they must come by sequence, each once", r.Sequence, last.Sequence)
		}
		binary.BigEndian.PutUint64(key[:8], r.Sequence)
		binary.BigEndian.PutUint64(key[8:], uint64(r.Published))
		set.Write(key[:])
		n, last = n+1, r
		if some = append(some, r); len(some) == cap(some) {
			if err := flush(); err != nil {
				return "", err
			}
		}
	}
	if err := errors.Join(flush(), w.Close(), out.Flush()); err != nil {
		return "", err
	}
	return fileName(first.hour(), first.Sequence, last.Sequence, set), nil
}

func (s *store) temporary() (*os.File, error) {
	f, err := os.CreateTemp(s.dir, temporaryPrefix+"*")
	if err != nil {
		return nil, err
	}
	return f, f.Chmod(0o640)
}

// sync makes the names in the folder outlive a crash of the machine. Windows does that by itself.
func (s *store) sync() error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// files lists what there is, by hour and then by first sequence: all that was there when it was called, or what that was merged into. A name of another form
// is not ours.
func (s *store) files() (all []file, err error) {
	entries, err := s.list()
	if err != nil {
		return nil, fmt.Errorf("analytics: %w", err)
	}
	for _, e := range entries {
		parts := nameForm.FindStringSubmatch(e.Name())
		f := file{name: e.Name(), size: e.Size()}
		if f.hour, err = time.Parse(hourLayout, parts[1]); err != nil {
			continue // not ours
		}
		f.first, _ = strconv.ParseUint(parts[2], 10, 64)
		f.last, _ = strconv.ParseUint(parts[3], 10, 64)
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(a, b file) int {
		if c := a.hour.Compare(b.hour); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	return all, nil
}
