// Package shutdown ends a process the way its supervisor expects: the first SIGINT or SIGTERM stops its parts one after
// the other, a second one ends it at once, and the exit code tells what happened.
//
//	func main() {
//		shutdown.Main(
//			shutdown.Part{Name: "orders", Run: runner.Run},                  // stops first
//			shutdown.HTTP("admin", &http.Server{Addr: ":8080"}, time.Second), // answers probes until the last
//		)
//	}
//
// Only Notify and Main touch the process's signals, and only when they are called. Everything else here works in a
// program that handles its signals itself.
package shutdown

import (
	"cmp"
	"context"
	"errors"
	"sync"
)

// ErrFinished is the cause with which the other parts' contexts end when a part has returned nil.
var ErrFinished = errors.New("shutdown: a part of the process has finished")

// Part is something that runs until it is told to stop: a Runner, a server, a ticker.
type Part struct {
	Name string // in error texts
	// Run blocks until nothing of the part is left. When ctx ends it stops, in its own time: nothing here cuts it short.
	// It returns nil if it stopped as told, and also if it has finished what there was to do.
	Run func(ctx context.Context) error
}

// Run starts all parts at once. When ctx ends, or a part returns, with an error or without, it stops the parts in the
// order given: the first one's context is cancelled and its return awaited, then the second's, and so on. So what takes
// in work comes first, and what must see the end, such as the server that answers probes, last.
//
// The parts' contexts hold ctx's values but end only when their turn comes: with the cause of ctx, or with the error of
// the part that failed first, or with ErrFinished. A part that fails while an earlier one is stopping waits for the rest
// like all others. No time limit is set here: a part that never returns is ended by a second signal, see Notify.
//
// Run returns when all have returned: nil, or the parts' errors joined, in the order of the parts, each as a *PartError.
// What a part returns after its context has ended is no error if it says nothing but that: context.Canceled or the cause,
// also wrapped. The cause of ctx itself is not returned. A panic or runtime.Goexit in a part is an error like others
// (*PanicError). If ctx has ended before, nothing is started.
func Run(ctx context.Context, parts ...Part) error {
	if len(parts) == 0 || ctx.Err() != nil {
		return nil
	}
	cancels := make([]context.CancelCauseFunc, len(parts))
	results := make([]<-chan error, len(parts))
	first := make(chan error, len(parts)) // room for all: only the first is read
	for i, p := range parts {
		// Not a child of ctx, or all parts would stop at once.
		own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		cancels[i] = cancel
		results[i] = p.start(own, func(err error) { first <- cmp.Or(err, ErrFinished) })
	}
	var cause error
	select {
	case <-ctx.Done():
	case cause = <-first:
	}
	cause = cmp.Or(context.Cause(ctx), cause) // the outer reason wins, should both have come at once
	errs := make([]error, len(parts))
	for i := range parts {
		cancels[i](cause)
		errs[i] = <-results[i]
	}
	return errors.Join(errs...)
}

// Together makes one part of several that stop at the same time, such as the Runners of one process: they drain side by
// side. One that fails stops the others; one that returns nil has finished, and the others go on until they have, too.
// Errors name the group and the part: "runners/orders".
func Together(name string, parts ...Part) Part {
	return Part{Name: name, Run: func(ctx context.Context) error {
		own, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		errs := make([]error, len(parts))
		var all sync.WaitGroup
		for i, p := range parts {
			all.Go(func() {
				errs[i] = <-p.start(own, func(err error) {
					if err != nil {
						cancel(err)
					}
				})
			})
		}
		all.Wait()
		return errors.Join(errs...)
	}}
}
