package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/rogpeppe/go-internal/lockedfile"
)

const (
	mark      = "ackfloor-demo" // is in each folder that a demo has used, so that no other is emptied
	lockLimit = 500 * time.Millisecond
)

// exitError is an error with an exit code of package shutdown.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }
func (e *exitError) ExitCode() int { return e.code }

// openFolder makes the folder, empty, for this demo alone until unlock. One that is in use is left alone, and so is one with files that are not a demo's.
func openFolder(ctx context.Context, dir string) (_ string, unlock func(), err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", nil, err
	}
	free, err := lock(ctx, dir+".lock")
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			free()
		}
	}()
	if _, err := os.Stat(filepath.Join(dir, mark)); err == nil { // one of an earlier run
		if err := os.RemoveAll(dir); err != nil {
			return "", nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return "", nil, err
	}
	if len(files) > 0 {
		return "", nil, &exitError{shutdown.ExitConfig, fmt.Sprintf("%s holds files that are not a demo's: give another folder with -dir", dir)}
	}
	return dir, free, os.WriteFile(filepath.Join(dir, mark), nil, 0o600)
}

// lock takes the lock, which the system frees when this process ends, however it ends. It is beside the folder, which is emptied.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	type result struct {
		unlock func()
		err    error
	}
	got, gone := make(chan result), make(chan struct{})
	defer close(gone)
	go func() { // the library has no lock that does not wait
		unlock, err := lockedfile.MutexAt(path).Lock()
		select {
		case got <- result{unlock, err}:
		case <-gone:
			if err == nil {
				unlock()
			}
		}
	}()
	timer := time.NewTimer(lockLimit)
	defer timer.Stop()
	select {
	case r := <-got:
		return r.unlock, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.C:
		return nil, &exitError{shutdown.ExitUnavailable, fmt.Sprintf("another demo holds %s: stop it, or give another folder with -dir", path)}
	}
}

var exe = map[string]string{"windows": ".exe"}[runtime.GOOS]

// build builds the services into dir.
func build(ctx context.Context, dir string) error {
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	for _, name := range services {
		args = append(args, "github.com/ackfloor/ackfloor/examples/"+name)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.WaitDelay = time.Second // its compilers hold the pipe a moment longer
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the services (run this inside the repository, or give -bin): %w\n%s", err, text)
	}
	return nil
}

// restock fills the shelves: this shop never runs out.
func restock(ctx context.Context, inventory, dir string) error {
	cmd := exec.CommandContext(ctx, inventory, "-restock", "mug=1000000", "teapot=1000000", "kettle=1000000")
	cmd.Dir, cmd.Env = dir, environment()
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("restocking: %w: %s", err, text)
	}
	return nil
}

var errNotUp = errors.New("the services do not come up: see the file log in the demo's folder")
