package shutdown_test

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/ackfloor/ackfloor/shutdown"
)

// coded is an error with an exit code of its own.
type coded int

func (c coded) Error() string { return fmt.Sprintf("code %d", int(c)) }
func (c coded) ExitCode() int { return int(c) }

// outer has a code and wraps an error that may have another.
type outer struct {
	coded
	err error
}

func (o outer) Unwrap() error { return o.err }

func TestExitCode(t *testing.T) {
	signal := &shutdown.SignalError{Signal: syscall.SIGTERM}
	for _, tc := range []struct {
		name string
		err  error
		want int
	}{
		{"nil", nil, shutdown.ExitOK},
		{"any error", io.EOF, shutdown.ExitFailed},
		{"with a code", coded(75), shutdown.ExitGraceEnded},
		{"wrapped", fmt.Errorf("a: %w", fmt.Errorf("b: %w", coded(69))), shutdown.ExitUnavailable},
		{"of a part", &shutdown.PartError{Name: "worker", Err: coded(78)}, shutdown.ExitConfig},
		{"joined, first", errors.Join(coded(69), coded(75)), 69},
		{"joined, after one without", errors.Join(io.EOF, fmt.Errorf("x: %w", coded(75)), coded(69)), 75},
		{"depth before breadth", errors.Join(errors.Join(io.EOF, coded(3)), coded(4)), 3},
		{"after a zero", errors.Join(coded(0), coded(75)), 75},
		{"zero alone", coded(0), 1},
		{"zero around a code", outer{0, coded(75)}, 75},
		{"code around a code", outer{69, coded(75)}, 69},
		{"negative", coded(-1), 1},
		{"256 would be 0", coded(256), 1},
		{"255", coded(255), 255},
		{"signal", signal, 143},
		{"signal, wrapped", errors.Join(io.EOF, fmt.Errorf("x: %w", &shutdown.SignalError{Signal: syscall.SIGINT})), 130},
		{"a code wins over a signal", errors.Join(signal, coded(75)), 75},
	} {
		if got := shutdown.ExitCode(tc.err); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}
