package shutdown_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
)

// uncomparable is an error that == panics on.
type uncomparable []string

func (u uncomparable) Error() string { return strings.Join(u, " ") }

// What a part returns because it was stopped, and what it returns beside that.
func TestStoppedIsNoError(t *testing.T) {
	errReason := errors.New("reason")
	for name, tc := range map[string]struct {
		cause error
		run   func(ctx context.Context) error
		want  string
	}{
		"ctx.Err":             {errReason, func(ctx context.Context) error { return ctx.Err() }, ""},
		"wrapped":             {errReason, func(ctx context.Context) error { return fmt.Errorf("pull: %w", ctx.Err()) }, ""},
		"cause":               {errReason, func(ctx context.Context) error { return fmt.Errorf("pull: %w", context.Cause(ctx)) }, ""},
		"both":                {errReason, func(ctx context.Context) error { return errors.Join(ctx.Err(), context.Cause(ctx)) }, ""},
		"with a failure":      {errReason, func(ctx context.Context) error { return errors.Join(ctx.Err(), errBoom) }, "context canceled\nboom"},
		"with a code":         {errReason, func(ctx context.Context) error { return outer{75, ctx.Err()} }, "code 75"},
		"other":               {errReason, func(ctx context.Context) error { return errBoom }, "boom"},
		"deadline":            {errReason, func(ctx context.Context) error { return context.DeadlineExceeded }, "context deadline exceeded"},
		"cause, uncomparable": {uncomparable{"why"}, func(ctx context.Context) error { return context.Cause(ctx) }, "why"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := shutdown.Run(ctx, shutdown.Part{Name: "x", Run: func(own context.Context) error {
			cancel(tc.cause)
			<-own.Done()
			return tc.run(own)
		}})
		if got := strings.TrimPrefix(text(err), "shutdown: x: "); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	// Canceled while nobody asked it to stop is a failure.
	if err := shutdown.Run(t.Context(), returns("x", 0, context.Canceled)); !errors.Is(err, context.Canceled) {
		t.Errorf("Canceled without a stop: %v", err)
	}
}

// A part of a group fails with Canceled, unasked, and only then, while its neighbour drains, the whole is stopped: it stays a
// failure.
func TestGroupKeepsCanceledFailure(t *testing.T) {
	for name, run := range map[string]func(context.Context) error{
		"a: context canceled":        func(context.Context) error { return context.Canceled },
		"a: panic: context canceled": func(context.Context) error { panic(context.Canceled) },
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			j := &journal{start: time.Now()}
			err := shutdown.Run(ctx, shutdown.Together("g", shutdown.Part{Name: "a", Run: run}, j.part("b", 2*time.Second, nil)))
			if text(err) != "shutdown: g/"+name {
				t.Errorf("%q became %q", name, text(err))
			}
		})
	}
}

// multi is an error whose tree is empty: it must not be lost when it is named.
type multi struct{}

func (multi) Error() string   { return "several" }
func (multi) Unwrap() []error { return nil }

func TestStrangeJoinsAreKept(t *testing.T) {
	for _, inner := range []error{multi{}, errors.Join(errBoom, &shutdown.PartError{Name: "n", Err: io.EOF})} {
		err := shutdown.Run(t.Context(), returns("x", 0, inner))
		if part, ok := errors.AsType[*shutdown.PartError](err); !ok || part.Err != inner || part.Name != "x" {
			t.Errorf("%v became %v", inner, err)
		}
	}
}
