package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// lockName is a file that is locked for a moment: shared by those that list the folder, and by one alone that takes files out of it. A folder is not listed in one
// moment: without the lock, a listing during a merge may have neither the files that are merged, nor the one that they are merged into.
const lockName = ".lock"

// alone calls change while nobody lists the folder.
func (s *store) alone(change func() error) error {
	lock, err := lockedfile.OpenFile(filepath.Join(s.dir, lockName), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	return errors.Join(change(), lock.Close())
}

// list lists the store's files with their sizes while nothing is taken out of the folder. Who may only read needs no more than that.
func (s *store) list() (all []fs.FileInfo, err error) {
	lock, err := lockedfile.Open(filepath.Join(s.dir, lockName))
	if err == nil {
		defer func() { err = errors.Join(err, lock.Close()) }()
	} else if !errors.Is(err, fs.ErrNotExist) { // where it is not there, nothing was ever taken out
		return nil, err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !nameForm.MatchString(e.Name()) {
			continue // not ours
		}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		all = append(all, info)
	}
	return all, nil
}

// removeLeftOver removes what processes that were killed have not finished.
func (s *store) removeLeftOver(now time.Time) error {
	paths, err := filepath.Glob(filepath.Join(s.dir, temporaryPrefix+"*"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && now.Sub(info.ModTime()) > leftOver {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
