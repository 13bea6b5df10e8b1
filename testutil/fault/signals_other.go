//go:build !unix

package fault

import (
	"errors"
	"os"
)

var errNoSignals = errors.New("fault: this system has no such signals")

func hangSignals() (stop, cont os.Signal, err error) { return nil, nil, errNoSignals }

func lameDuckSignal() (os.Signal, error) { return nil, errNoSignals }

func exitCode(state *os.ProcessState) int { return state.ExitCode() }
