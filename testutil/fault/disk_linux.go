package fault

import (
	"fmt"
	"syscall"
)

func mount(path string, bytes int64) (unmount func() error, err error) {
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		return nil, err
	}
	return func() error { return syscall.Unmount(path, syscall.MNT_DETACH) }, nil
}
