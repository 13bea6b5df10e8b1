package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Disk is a small file system, which is easily filled.
type Disk struct {
	Path string // of the directory; for nats-server: testutil.ServerProcess(t, "-sd", disk.Path)
}

// SmallDisk mounts a file system of so many bytes, in memory, for the time of the test. Where that is not allowed the test is skipped: it needs
// Linux and root. Call it before the server that is to use it.
func SmallDisk(t testing.TB, bytes int64) *Disk {
	t.Helper()
	d := &Disk{Path: t.TempDir()}
	unmount, err := mount(d.Path, bytes)
	if err != nil {
		t.Skipf("SKIPPED, the full disk is not tested: a small tmpfs can't be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unmount(); err != nil {
			t.Errorf("fault: unmounting %s: %v", d.Path, err)
		}
	})
	return d
}

func (d *Disk) ballast() string { return filepath.Join(d.Path, "ballast") }

// Fill takes all the room that is left.
func (d *Disk) Fill() error {
	f, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("fault: filling the disk: %w", err)
	}
	defer func() { _ = f.Close() }()
	for size := 64 << 10; size > 0; {
		n, err := f.Write(make([]byte, size))
		switch {
		case errors.Is(err, syscall.ENOSPC):
			if n == 0 {
				size /= 2 // what is left is less than that
			}
		case err != nil:
			return fmt.Errorf("fault: filling the disk: %w", err)
		}
	}
	return nil
}

// Free gives the room back that Fill has taken.
func (d *Disk) Free() error {
	if err := os.Remove(d.ballast()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("fault: freeing the disk: %w", err)
	}
	return nil
}

// Full is a fault: the disk is full for about so long. What a server needs to go on behind that is up to after, which is called when there is
// room again; nil for nothing.
func (d *Disk) Full(every, long time.Duration, after func()) Fault {
	return Fault{Name: "full disk", Every: every, Of: d, Do: func(ctx context.Context, draw *rand.Rand) error {
		long := about(draw, long)
		// What the server gives up meanwhile is taken too.
		until := time.Now().Add(long)
		for ctx.Err() == nil && time.Now().Before(until) {
			if err := d.Fill(); err != nil {
				return err
			}
			rest(ctx, 20*time.Millisecond)
		}
		if err := d.Free(); err != nil {
			return err
		}
		if after != nil {
			after()
		}
		return nil
	}}
}
