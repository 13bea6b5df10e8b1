package shutdown_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
)

var errBoom = errors.New("boom")

// journal records what parts do, in order, with the time since the bubble began.
type journal struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, time.Since(j.start).String()+" "+fmt.Sprintf(format, args...))
}

// part notes when it is stopped and when it ends, drain later, with err.
func (j *journal) part(name string, drain time.Duration, err error) shutdown.Part {
	return shutdown.Part{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		j.note("%s: %v", name, context.Cause(ctx))
		time.Sleep(drain)
		j.note("%s ends", name)
		return err
	}}
}

func returns(name string, after time.Duration, err error) shutdown.Part {
	return shutdown.Part{Name: name, Run: func(context.Context) error { time.Sleep(after); return err }}
}

func TestOrder(t *testing.T) {
	type key struct{}
	errReason := errors.New("reason")
	for _, tc := range []struct {
		name  string
		parts func(j *journal) []shutdown.Part
		err   string
		lines []string
	}{
		{"ctx ends after 10 s", func(j *journal) []shutdown.Part {
			return []shutdown.Part{j.part("a", 3*time.Second, nil), j.part("b", time.Second, nil), j.part("c", 0, nil)}
		}, "", []string{"10s a: reason", "13s a ends", "13s b: reason", "14s b ends", "14s c: reason", "14s c ends"}},

		{"the last fails", func(j *journal) []shutdown.Part {
			return []shutdown.Part{j.part("a", time.Second, nil), j.part("b", 0, nil), returns("c", 2*time.Second, errBoom)}
		}, "shutdown: c: boom", []string{"2s a: shutdown: c: boom", "3s a ends", "3s b: shutdown: c: boom", "3s b ends"}},

		{"the first has finished", func(j *journal) []shutdown.Part {
			return []shutdown.Part{returns("a", time.Second, nil), j.part("b", 0, nil)}
		}, "", []string{"1s b: " + shutdown.ErrFinished.Error(), "1s b ends"}},

		{"one fails while another stops", func(j *journal) []shutdown.Part {
			return []shutdown.Part{j.part("a", 5*time.Second, io.EOF), j.part("b", 0, nil), returns("c", 12*time.Second, errBoom)}
		}, "shutdown: a: EOF\nshutdown: c: boom", []string{"10s a: reason", "15s a ends", "15s b: reason", "15s b ends"}},

		{"a group stops as one", func(j *journal) []shutdown.Part {
			return []shutdown.Part{
				shutdown.Together("runners", j.part("a", 3*time.Second, nil), j.part("b", time.Second, io.EOF)),
				j.part("c", 0, nil)}
		}, "shutdown: runners/b: EOF", []string{"10s a: reason", "10s b: reason", "11s b ends", "13s a ends", "13s c: reason", "13s c ends"}},

		{"one of a group fails", func(j *journal) []shutdown.Part {
			return []shutdown.Part{
				shutdown.Together("runners", j.part("a", 3*time.Second, nil), returns("b", time.Second, errBoom)),
				j.part("c", 0, nil)}
		}, "shutdown: runners/b: boom", []string{"1s a: shutdown: b: boom", "4s a ends", "4s c: shutdown: runners/b: boom", "4s c ends"}},

		{"one of a group has finished", func(j *journal) []shutdown.Part {
			return []shutdown.Part{
				shutdown.Together("runners", j.part("a", 3*time.Second, nil), returns("b", time.Second, nil), returns("d", 20*time.Second, nil)),
				j.part("c", 0, nil)}
		}, "", []string{"10s a: reason", "13s a ends", "20s c: reason", "20s c ends"}},

		{"a group whose parts have all finished", func(j *journal) []shutdown.Part {
			return []shutdown.Part{
				shutdown.Together("runners", returns("a", 3*time.Second, nil), returns("b", time.Second, nil)),
				j.part("c", 0, nil)}
		}, "", []string{"3s c: " + shutdown.ErrFinished.Error(), "3s c ends"}},

		{"groups in groups", func(j *journal) []shutdown.Part {
			return []shutdown.Part{shutdown.Together("x", shutdown.Together("y", returns("a", 0, errBoom), j.part("b", 0, io.EOF)))}
		}, "shutdown: x/y/a: boom\nshutdown: x/y/b: EOF", []string{"0s b: shutdown: a: boom", "0s b ends"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &journal{start: time.Now()}
				ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "kept"))
				defer cancel(nil)
				time.AfterFunc(10*time.Second, func() { cancel(errReason) })
				parts := tc.parts(j)
				for i, p := range parts {
					parts[i].Run = func(ctx context.Context) error {
						if ctx.Value(key{}) != "kept" {
							t.Error("the context's values are lost")
						}
						return p.Run(ctx)
					}
				}
				err := shutdown.Run(ctx, parts...)
				if got := text(err); got != tc.err {
					t.Errorf("error %q, want %q", got, tc.err)
				}
				if tc.name == "a group stops as one" { // the two are told at the same moment
					slices.Sort(j.lines[:2])
				}
				if !slices.Equal(j.lines, tc.lines) {
					t.Errorf("it went\n%q, want\n%q", j.lines, tc.lines)
				}
			})
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestErrorsKeepTheirIdentity(t *testing.T) {
	err := shutdown.Run(t.Context(), shutdown.Together("g", returns("a", 0, fmt.Errorf("x: %w", coded(75)))), returns("b", 0, errBoom))
	if !errors.Is(err, errBoom) || !errors.Is(err, coded(75)) || shutdown.ExitCode(err) != 75 {
		t.Errorf("%v (%d) has lost an error or the exit code", err, shutdown.ExitCode(err))
	}
	part, ok := errors.AsType[*shutdown.PartError](err)
	if !ok || part.Name != "g/a" {
		t.Errorf("%v is no PartError of g/a", part)
	}
}

func TestNothingToRun(t *testing.T) {
	if err := shutdown.Run(t.Context()); err != nil {
		t.Errorf("no parts: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := shutdown.Run(ctx, returns("a", 0, errBoom)); err != nil {
		t.Errorf("a context that has ended: %v, so the part was started", err)
	}
}

func TestPanics(t *testing.T) {
	for name, tc := range map[string]struct {
		run  func(context.Context) error
		text string
	}{
		"error":  {func(context.Context) error { panic(errBoom) }, "shutdown: x: panic: boom"},
		"text":   {func(context.Context) error { panic("ouch") }, "shutdown: x: panic: ouch"},
		"nil":    {func(context.Context) error { panic(nil) }, "shutdown: x: panic: panic called with nil argument"},
		"goexit": {func(context.Context) error { runtime.Goexit(); return nil }, "shutdown: x: runtime.Goexit was called"},
		"no Run": {nil, "shutdown: x: panic: runtime error: invalid memory address"},
		// Late, when it was already told to stop: still an error.
		"late": {func(ctx context.Context) error { <-ctx.Done(); panic(context.Canceled) }, "shutdown: x: panic: context canceled"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		stopped := false
		other := shutdown.Part{Name: "other", Run: func(ctx context.Context) error { <-ctx.Done(); stopped = true; return nil }}
		if name == "late" {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
		}
		err := shutdown.Run(ctx, shutdown.Part{Name: "x", Run: tc.run}, other)
		cancel()
		if !strings.HasPrefix(text(err), tc.text) || !stopped {
			t.Errorf("%s: %q, the other stopped: %v; want %q", name, text(err), stopped, tc.text)
			continue
		}
		p, _ := errors.AsType[*shutdown.PanicError](err)
		if want := name != "goexit"; p.Goexit == want || strings.Contains(string(p.Stack), "run_test.go") != (want && name != "no Run") {
			t.Errorf("%s: Goexit %v, stack %s", name, p.Goexit, p.Stack)
		}
		if name == "error" && !errors.Is(err, errBoom) {
			t.Error("the error that it panicked with is lost")
		}
	}
}
