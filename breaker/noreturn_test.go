package breaker_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/breaker"
)

// A call that does not return: it is a failure, what it did goes on unchanged, and no trial is lost.
func TestNoReturn(t *testing.T) {
	value := errors.New("a value")
	type end struct {
		panicked any
		goexit   bool
	}
	run := func(f func()) (e end) {
		e.goexit = true
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() {
				if p := recover(); p != nil {
					e = end{panicked: p}
				}
			}()
			f()
			e.goexit = false
		}()
		<-done
		return e
	}
	for name, tc := range map[string]struct {
		handler func(context.Context) error
		counts  func(error) bool
		want    end
	}{
		"panic":  {func(context.Context) error { panic(value) }, nil, end{panicked: value}},
		"goexit": {func(context.Context) error { runtime.Goexit(); return nil }, nil, end{goexit: true}},
		"counts": {func(context.Context) error { return errDown }, func(error) bool { panic(value) }, end{panicked: value}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, breaker.Config{Failures: 2, Counts: tc.counts})
				for range 2 {
					r.is(breaker.Closed)
					if got := run(func() { r.do(tc.handler) }); got != tc.want {
						t.Fatalf("it came back as %+v", got)
					}
				}
				r.is(breaker.Open)
				if err := r.answer(nil); name != "counts" && !strings.Contains(err.Error(), "the handler panicked, or ended its goroutine") {
					t.Errorf("a refusal says %q", err)
				}
				for range 3 {
					time.Sleep(10 * time.Second)
					if got := run(func() { r.do(tc.handler) }); got != tc.want {
						t.Fatalf("as a trial it came back as %+v", got)
					}
					r.is(breaker.Open)
				}
				time.Sleep(10 * time.Second)
				if err := r.answer(nil); err != nil {
					t.Error(err)
				}
				r.is(breaker.Closed)
			})
		})
	}
}

// The stack of a panic still shows where it was.
func TestPanicKeepsItsStack(t *testing.T) {
	r := newRig(t, breaker.Config{})
	defer func() {
		stack := make([]byte, 64<<10)
		stack = stack[:runtime.Stack(stack, false)]
		if recover() != "here" || !strings.Contains(string(stack), "somewhereDeep") {
			t.Errorf("the stack:\n%s", stack)
		}
	}()
	r.do(func(context.Context) error { somewhereDeep(); return nil })
}

//go:noinline
func somewhereDeep() { panic("here") }

// A handler that hangs through its trial, and ignores its context: when that ends the trial has failed, and others follow. What it answers in
// the end counts for nothing.
func TestTrialThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, breaker.Config{Failures: 1})
		r.fail(1)
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, ackfloor.ErrHandleTimeout)
		defer cancel()
		hanging := r.begin(ctx)
		time.Sleep(time.Minute - 1)
		r.refuses(250 * time.Millisecond)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		r.is(breaker.Open)
		r.refuses(10 * time.Second)
		time.Sleep(10 * time.Second)
		trial := r.begin(t.Context())
		if err := hanging(errDown); paused(err) != 250*time.Millisecond {
			t.Errorf("the one that hung: %v", err)
		}
		r.is(breaker.HalfOpen)
		trial(nil)
		r.is(breaker.Closed)
		r.saw("open 10s", "half-open", "open 10s", "half-open", "closed")
	})
}

// A trial's context that ends behind its answer, as every context does, changes nothing, and nothing is left that waits for it.
func TestContextEndsBehindTheTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, breaker.Config{Failures: 1, Successes: 2})
		r.fail(1)
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		r.doWith(ctx, r.next(), func(context.Context) error { return nil })
		cancel()
		synctest.Wait()
		r.is(breaker.HalfOpen)
		r.answer(nil)
		r.is(breaker.Closed)
	})
}
