package shutdown

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// SignalError is the cause of a context that a signal ended.
type SignalError struct {
	Signal syscall.Signal // SIGINT or SIGTERM
}

func (e *SignalError) Error() string { return "shutdown: signal received: " + e.Signal.String() }

func (e *SignalError) code() int { return 128 + int(e.Signal) }

// sameSignal is for how long behind the first a signal of its kind counts as the same one.
const sameSignal = 10 * time.Millisecond

// Notify takes SIGINT and SIGTERM for this process. The first one ends ctx, with a *SignalError as its cause; the second,
// of either kind, calls exit with 128 + its number at once, whatever still runs. exit is os.Exit if nil. One of the same kind within 10 ms
// of the first is the first again: what signals a process and then its group, as timeout of coreutils does, sends two. Signals are
// counted from the call on, also once parent has ended: the first then has nothing left to end.
//
// stop gives the signals back, so that the next one does what it did before, and ends ctx. It may be called more than once.
func Notify(parent context.Context, exit func(code int)) (ctx context.Context, stop func()) {
	if exit == nil {
		exit = os.Exit
	}
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2) // os/signal drops what finds no room
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	pipes := make(chan os.Signal, 1)
	stopped := make(chan struct{})
	next := func() (*SignalError, bool) {
		select {
		case s := <-signals:
			n, _ := s.(syscall.Signal)
			return &SignalError{Signal: n}, true
		case <-stopped:
			return nil, false
		}
	}
	go func() {
		first, ok := next()
		if !ok {
			return
		}
		at := time.Now()
		// Ctrl-C on `service 2>&1 | tee log` ends who reads the log at once. Go would end the process at the next line of it, in the middle of its stop.
		signal.Notify(pipes, syscall.SIGPIPE)
		cancel(first)
		for {
			second, ok := next()
			switch {
			case !ok:
				return
			case second.Signal == first.Signal && time.Since(at) < sameSignal:
				continue
			}
			exit(second.code())
			return
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		signal.Stop(pipes)
		close(stopped)
		cancel(nil)
	})
}

// Main is the whole of a main function: it takes the signals (see Notify), runs the parts (see Run), writes their errors
// to stderr, a panic's with its stack, and exits with ExitCode. It does not return.
func Main(parts ...Part) {
	// The background context belongs here: this is where the process begins. The signals are never given back, or one that
	// comes between the drain and the exit would kill the process and look like a failure.
	ctx, _ := Notify(context.Background(), nil)
	err := Run(ctx, parts...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if p, ok := errors.AsType[*PanicError](err); ok && !p.Goexit {
			fmt.Fprintf(os.Stderr, "%s\n", p.Stack)
		}
	}
	os.Exit(ExitCode(err))
}
