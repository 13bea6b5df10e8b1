//go:build !linux

package fault

import "errors"

func mount(string, int64) (func() error, error) { return nil, errors.New("that needs Linux") }
