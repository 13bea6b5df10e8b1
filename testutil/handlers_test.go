package testutil

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
)

var errTest = errors.New("test")

func TestFail(t *testing.T) {
	h := Fail(2, errTest)
	one, two := Message("x", nil), Message("x", nil, Sequence(2))
	elsewhere := Message("x", nil, Stream("OTHER"))
	for i, want := range []error{errTest, errTest, nil, nil} {
		if err := h.Handle(t.Context(), one); err != want {
			t.Errorf("call %d: %v, want %v", i+1, err, want)
		}
	}
	for _, m := range []*ackfloor.Message{two, elsewhere} {
		if err := h.Handle(t.Context(), m); err != errTest {
			t.Errorf("another message does not count by itself: %v", err)
		}
	}
	always := Fail(-1, errTest)
	for range 5 {
		if err := always.Handle(t.Context(), one); err != errTest {
			t.Errorf("Fail(-1): %v", err)
		}
	}
}

// What takes time, and what an end of the context after a second does to it.
func TestHandlersInTime(t *testing.T) {
	release, never := make(chan struct{}), make(chan struct{})
	close(release)
	for _, c := range []struct {
		name string
		h    ackfloor.Handler
		took time.Duration
		err  error
	}{
		{"Succeed", Succeed(), 0, nil},
		{"short Sleep", Sleep(500 * time.Millisecond), 500 * time.Millisecond, nil},
		{"long Sleep", Sleep(time.Minute), time.Second, errTest},
		{"Block, released", Block(release), 0, nil},
		{"Stubborn", Stubborn(time.Minute), time.Minute, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errTest)
			defer cancel()
			if err := c.h.Handle(ctx, Message("x", nil)); err != c.err {
				t.Errorf("%s: %v, want %v", c.name, err, c.err)
			}
			if took := time.Since(start); took != c.took {
				t.Errorf("%s took %v, want %v", c.name, took, c.took)
			}
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTest)
	if err := Block(never).Handle(ctx, Message("x", nil)); err != errTest {
		t.Errorf("Block with a context that has ended: %v", err)
	}
}

func TestPanicAndGoexit(t *testing.T) {
	var r Recorder
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("Panic panicked with %v", v)
			}
		}()
		_ = r.Wrap(Panic("boom")).Handle(t.Context(), Message("x", nil))
	}()
	returned := false
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Wrap(Goexit()).Handle(t.Context(), Message("x", nil, Sequence(2)))
		returned = true
	}()
	<-done
	if returned {
		t.Error("Goexit returned")
	}
	for _, c := range r.Wait(t, 2, time.Second) {
		if !c.NoReturn || c.End.IsZero() || !strings.Contains(c.String(), "panicked or called Goexit") {
			t.Errorf("recorded %s", c)
		}
	}
}

func TestByData(t *testing.T) {
	h := ByData(map[string]ackfloor.Handler{"good": Succeed(), "bad": Fail(-1, errTest)}, nil)
	if err := h.Handle(t.Context(), Message("x", "good")); err != nil {
		t.Errorf("good: %v", err)
	}
	if err := h.Handle(t.Context(), Message("x", "bad")); err != errTest {
		t.Errorf("bad: %v", err)
	}
	err := h.Handle(t.Context(), Message("x", "odd"))
	var permanent *ackfloor.PermanentError
	if !errors.As(err, &permanent) || !strings.Contains(err.Error(), `no handler for "odd"; there are handlers for "bad", "good"`) {
		t.Errorf("odd: %v", err)
	}
	if err := ByData(nil, Fail(1, errTest)).Handle(t.Context(), Message("x", "odd")); err != errTest {
		t.Errorf("otherwise: %v", err)
	}
}
