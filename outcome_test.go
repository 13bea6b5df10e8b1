package ackfloor_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
)

var errCard = errors.New("card refused")

func TestPermanentHolds(t *testing.T) {
	marked := ackfloor.Permanent(errCard)
	for name, err := range map[string]error{
		"bare":            marked,
		"wrapped twice":   fmt.Errorf("order 7: %w", fmt.Errorf("pay: %w", marked)),
		"joined":          errors.Join(io.EOF, marked),
		"wrapped, joined": fmt.Errorf("all: %w", errors.Join(io.EOF, fmt.Errorf("pay: %w", marked))),
		"two verbs":       fmt.Errorf("%w and %w", io.EOF, marked),
		"in RetryAfter":   ackfloor.RetryAfter(time.Second, marked),
		"around it":       ackfloor.Permanent(ackfloor.RetryAfter(time.Second, errCard)),
	} {
		if _, ok := errors.AsType[*ackfloor.PermanentError](err); !ok {
			t.Errorf("%s: Permanent is lost", name)
		}
		if !errors.Is(err, errCard) {
			t.Errorf("%s: the error that was marked is lost", name)
		}
	}
	if marked.Error() != errCard.Error() {
		t.Errorf("Permanent changes the text: %q", marked)
	}
	if _, ok := errors.AsType[*ackfloor.PermanentError](fmt.Errorf("pay: %v", marked)); ok {
		t.Error("an error that is only printed into another counts as Permanent: this test can't fail")
	}
}

func TestRetryAfterHolds(t *testing.T) {
	for name, err := range map[string]error{
		"bare":          ackfloor.RetryAfter(3*time.Second, errCard),
		"wrapped twice": fmt.Errorf("a: %w", fmt.Errorf("b: %w", ackfloor.RetryAfter(3*time.Second, errCard))),
		"joined":        errors.Join(io.EOF, ackfloor.RetryAfter(3*time.Second, errCard)),
		"in Permanent":  ackfloor.Permanent(ackfloor.RetryAfter(3*time.Second, errCard)),
		"outermost":     ackfloor.RetryAfter(3*time.Second, ackfloor.RetryAfter(time.Hour, errCard)),
	} {
		after, ok := errors.AsType[*ackfloor.RetryAfterError](err)
		if !ok || after.Delay != 3*time.Second {
			t.Errorf("%s: found %v, want a delay of 3 s", name, after)
		}
		if !errors.Is(err, errCard) {
			t.Errorf("%s: the error that was marked is lost", name)
		}
	}
	for given, want := range map[time.Duration]time.Duration{-1: 0, math.MinInt64: 0, 0: 0, math.MaxInt64: math.MaxInt64} {
		after, _ := errors.AsType[*ackfloor.RetryAfterError](ackfloor.RetryAfter(given, errCard))
		if after.Delay != want {
			t.Errorf("RetryAfter(%d): %d, want %d", given, after.Delay, want)
		}
	}
}

func TestNilStaysNil(t *testing.T) {
	if err := ackfloor.Permanent(nil); err != nil {
		t.Errorf("Permanent(nil) is %#v", err)
	}
	if err := ackfloor.RetryAfter(time.Second, nil); err != nil {
		t.Errorf("RetryAfter(1s, nil) is %#v", err)
	}
}

func TestPanicError(t *testing.T) {
	withError := error(&ackfloor.PanicError{Value: fmt.Errorf("pay: %w", errCard)})
	if !errors.Is(withError, errCard) || !strings.Contains(withError.Error(), "card refused") {
		t.Errorf("a panic with an error: %v does not unwrap to it", withError)
	}
	// A panic with Permanent is Permanent: the handler said so, if loudly.
	permanent := error(&ackfloor.PanicError{Value: ackfloor.Permanent(errCard)})
	if _, ok := errors.AsType[*ackfloor.PermanentError](permanent); !ok {
		t.Error("a panic with Permanent is not found")
	}
	for _, value := range []any{"text", 7, nil, struct{ A []int }{}} {
		p := &ackfloor.PanicError{Value: value}
		if p.Unwrap() != nil || !strings.HasPrefix(p.Error(), "ackfloor: the handler panicked: ") {
			t.Errorf("a panic with %#v: %q, unwraps to %v", value, p, p.Unwrap())
		}
	}
	goexit := &ackfloor.PanicError{Goexit: true}
	if !strings.Contains(goexit.Error(), "runtime.Goexit") || goexit.Unwrap() != nil {
		t.Errorf("Goexit: %q", goexit)
	}
}

func TestCausesAreDistinct(t *testing.T) {
	causes := []error{ackfloor.ErrStopping, ackfloor.ErrHandleTimeout, ackfloor.ErrLeaseLost}
	for i, a := range causes {
		if !strings.HasPrefix(a.Error(), "ackfloor: ") {
			t.Errorf("%q does not say whose it is", a)
		}
		for _, b := range causes[i+1:] {
			if errors.Is(a, b) || errors.Is(b, a) {
				t.Errorf("%q can't be told from %q", a, b)
			}
		}
	}
}
