package shutdown

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
)

// PartError says which part failed, and with what.
type PartError struct {
	Name string // the part's; "group/part" for one inside Together
	Err  error  // what its Run returned, or a *PanicError
}

func (e *PartError) Error() string { return "shutdown: " + e.Name + ": " + e.Err.Error() }

// Unwrap returns what the part's Run returned.
func (e *PartError) Unwrap() error { return e.Err }

// PanicError is what a part's panic becomes. A part that ends its goroutine by runtime.Goexit yields one too, with Goexit
// set.
type PanicError struct {
	Value  any    // what panic was called with; nil with Goexit
	Stack  []byte // of the goroutine that panicked; nil with Goexit
	Goexit bool   // the part called runtime.Goexit
}

func (e *PanicError) Error() string {
	if e.Goexit {
		return "runtime.Goexit was called"
	}
	return fmt.Sprintf("panic: %v", e.Value)
}

// Unwrap returns the panic's value if it is an error, else nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// start runs the part in a goroutine of its own, which no panic and no Goexit leaves unreported. The error, named, goes to
// ended first and then to the channel.
func (p Part) start(ctx context.Context, ended func(error)) <-chan error {
	result := make(chan error, 1)
	go func() {
		var err error
		returned := false
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{Value: v, Stack: debug.Stack()}
			} else if !returned {
				err = &PanicError{Goexit: true}
			}
			if ctx.Err() != nil && onlyStopped(err, context.Cause(ctx)) {
				err = nil
			}
			err = name(p.Name, err)
			ended(err)
			result <- err
		}()
		err = p.Run(ctx)
		returned = true
	}()
	return result
}

// name puts the part's name to its error. What Together returns is named already: there the two names become one, so that
// every line of a joined error tells the whole.
func name(part string, err error) error {
	if err == nil {
		return nil
	}
	inner := named(err)
	if inner == nil {
		return &PartError{Name: part, Err: err}
	}
	errs := make([]error, len(inner))
	for i, e := range inner {
		errs[i] = &PartError{Name: part + "/" + e.Name, Err: e.Err}
	}
	return errors.Join(errs...)
}

// named returns the parts' errors of which err is made, through joins of joins (a group in a group); nil if it is made of
// anything else.
func named(err error) []*PartError {
	if p, ok := err.(*PartError); ok {
		return []*PartError{p}
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var all []*PartError
	for _, e := range joined.Unwrap() {
		inner := named(e)
		if inner == nil {
			return nil
		}
		all = append(all, inner...)
	}
	return all
}

// onlyStopped tells whether err says no more than that the context ended. Not errors.Is: that would also be true for a
// failure which is joined with a cancellation, or which was caused by one and has an exit code of its own.
func onlyStopped(err, cause error) bool {
	if err == nil || err == context.Canceled || same(err, cause) {
		return true
	}
	if c, ok := err.(coder); ok && c.ExitCode() != 0 {
		return false
	}
	switch e := err.(type) {
	case *PanicError, *PartError: // a panic with such an error; the failure of a part in a group, judged already
		return false
	case interface{ Unwrap() error }:
		inner := e.Unwrap()
		return inner != nil && onlyStopped(inner, cause)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if !onlyStopped(inner, cause) {
				return false
			}
		}
		return len(e.Unwrap()) > 0
	}
	return false
}

// same is err == cause without the panic for a type that can't be compared: the cause may be any error of the caller's.
func same(err, cause error) bool {
	return reflect.TypeOf(cause).Comparable() && err == cause
}
