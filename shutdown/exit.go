package shutdown

import "errors"

// Exit codes, those of sysexits.h where it has one. 2 is Go's own for a panic, so it is not used. A process that was ended
// by a second signal has 128 + the signal's number.
const (
	ExitOK          = 0  // drained, or finished
	ExitFailed      = 1  // failed while running
	ExitUnavailable = 69 // server, stream or consumer not available within the start-up limit; EX_UNAVAILABLE
	ExitGraceEnded  = 75 // the drain's grace ended with handlers still running, their messages handed back; EX_TEMPFAIL
	ExitConfig      = 78 // bad configuration: starting again does not help; EX_CONFIG
)

type coder interface{ ExitCode() int }

// ExitCode returns the code with which a process that ended with err should exit: 0 for nil; else the first code found in
// err's tree (in the order of errors.As, joins included) by a method ExitCode() int; else 128 + the number of a
// *SignalError; else ExitFailed. A code outside 1 to 255 counts as none, so an error never exits with 0. *exec.ExitError
// has such a method: a child's code becomes the process's, unless an error around it has its own.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if code := findCode(err); code != 0 {
		return code
	}
	if s, ok := errors.AsType[*SignalError](err); ok {
		return s.code()
	}
	return ExitFailed
}

func findCode(err error) int {
	if c, ok := err.(coder); ok {
		// The kernel keeps the low eight bits only: 256 would be 0, success.
		if code := c.ExitCode(); code > 0 && code <= 255 {
			return code
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return findCode(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if code := findCode(inner); code != 0 {
				return code
			}
		}
	}
	return 0
}
