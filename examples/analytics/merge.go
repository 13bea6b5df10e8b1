package main

import (
	"container/heap"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"
)

// merged is what a merge has seen.
type merged struct {
	read   int64 // rows
	copies int64 // of them, rows of a message that had come already
}

// merge yields the rows of an hour's files by sequence, each message once. The files are in the order of their first sequence, and one is opened when its turn
// comes: of files that don't overlap, one is open at a time, so what is in memory does not grow with their number. An error is the last that it yields.
func (s *store) merge(files []file, seen *merged) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		var open cursors
		defer func() {
			for _, c := range open {
				c.close()
			}
		}()
		var last row
		for rest := files; ; {
			for len(rest) > 0 && (len(open) == 0 || rest[0].first <= open[0].row().Sequence) {
				c, err := s.open(rest[0])
				if err != nil {
					yield(row{}, err)
					return
				}
				heap.Push(&open, c)
				rest = rest[1:]
			}
			if len(open) == 0 {
				return
			}
			r := *open[0].row()
			if seen.read++; seen.read-seen.copies > 1 && last.compare(&r) == 0 {
				seen.copies++
			} else if !yield(r, nil) {
				return
			}
			last = r
			if err := open.next(); err != nil {
				yield(row{}, err)
				return
			}
		}
	}
}

// cursors are files that are being read, the one with the next row in front.
type cursors []*cursor

func (c cursors) Len() int           { return len(c) }
func (c cursors) Less(i, j int) bool { return c[i].row().before(c[j].row()) }
func (c cursors) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *cursors) Push(x any)        { *c = append(*c, x.(*cursor)) }
func (c *cursors) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// next moves the one in front on by a row.
func (c *cursors) next() error {
	front := (*c)[0]
	more, err := front.next()
	if err != nil {
		return err
	}
	if more {
		heap.Fix(c, 0)
		return nil
	}
	heap.Pop(c).(*cursor).close()
	return nil
}

// cursor reads one file.
type cursor struct {
	of   file
	from *os.File
	rows *parquet.GenericReader[row]
	some []row // read ahead
	at   int
	left int64 // rows that are not in some yet
}

// open opens a file and reads its first row.
func (s *store) open(f file) (_ *cursor, err error) {
	c := &cursor{of: f, at: -1}
	if c.from, err = os.Open(filepath.Join(s.dir, f.name)); err != nil {
		return nil, fmt.Errorf("analytics: %w", err)
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	info, err := c.from.Stat()
	if err != nil {
		return nil, c.broken(err)
	}
	if err := guard(func() error {
		p, err := parquet.OpenFile(c.from, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
		if err == nil {
			c.rows, c.left = parquet.NewGenericReader[row](p), p.NumRows()
		}
		return err
	}); err != nil {
		return nil, c.broken(err)
	}
	more, err := c.next()
	if err == nil && !more {
		err = c.broken(errors.New("it has no rows"))
	}
	if err == nil && c.row().Sequence != f.first {
		err = c.broken(fmt.Errorf("it begins at %d", c.row().Sequence))
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *cursor) row() *row { return &c.some[c.at] }

func (c *cursor) next() (more bool, err error) {
	if c.at++; c.at < len(c.some) {
		return true, nil
	}
	if c.left == 0 {
		return false, nil
	}
	if c.some == nil {
		c.some = make([]row, 512)
	}
	c.some = c.some[:min(int64(cap(c.some)), c.left)]
	var n int
	err = guard(func() (err error) {
		n, err = c.rows.Read(c.some)
		return err
	})
	if n == 0 && (err == nil || errors.Is(err, io.EOF)) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, c.broken(err)
	}
	c.some, c.at, c.left = c.some[:n], 0, c.left-int64(n)
	return true, nil
}

// guard makes an error of a panic, with which the library answers some files that are damaged.
func guard(read func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("reading it panicked: %v", v)
		}
	}()
	return read()
}

func (c *cursor) broken(err error) error {
	return fmt.Errorf("analytics: %s is not what its name says: %w; move it out of the folder to go on without it", c.of.name, err)
}

func (c *cursor) close() {
	if c.rows != nil {
		_ = c.rows.Close()
	}
	_ = c.from.Close()
}
