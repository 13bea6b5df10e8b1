package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ackfloor/ackfloor/shutdown"
)

// Exit codes, those of sysexits.h where it has one; the rest are those of package shutdown.
const (
	exitUsage    = 64 // EX_USAGE
	exitNotFound = 66 // EX_NOINPUT
)

const exitCodes = `Exit codes:
  0    done; also a list that is empty, and a watch that was ended with Ctrl-C
  1    not all could be done: what failed is said on standard error, one line each
  64   wrong usage: a flag, an argument, a question that nobody is there to answer
  66   no dead letter of that number
  69   the server or the stream is not available, or a right is missing
  78   a connection setting is wrong
  130  interrupted with Ctrl-C (143 by SIGTERM); what was done is said, and running it again goes on`

// coded is an error with the exit code that it means.
type coded struct {
	code int
	err  error
}

func (e *coded) Error() string { return e.err.Error() }
func (e *coded) Unwrap() error { return e.err }
func (e *coded) ExitCode() int { return e.code }

func usagef(format string, args ...any) error {
	return &coded{exitUsage, fmt.Errorf(format, args...)}
}

func unavailablef(format string, args ...any) error {
	return &coded{shutdown.ExitUnavailable, fmt.Errorf(format, args...)}
}

// exitCode finds the code for what a command returned. A signal wins over what it made fail.
func exitCode(ctx context.Context, err error) int {
	if err == nil {
		return shutdown.ExitOK
	}
	if s, ok := errors.AsType[*shutdown.SignalError](context.Cause(ctx)); ok {
		return shutdown.ExitCode(s)
	}
	return shutdown.ExitCode(err)
}
