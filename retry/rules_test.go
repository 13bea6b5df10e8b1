package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/retry"
)

var errBusy = errors.New("busy")

// throttled is a provider's error with its own hint; panicky one whose methods panic, as those of a nil pointer do.
type throttled struct{ after time.Duration }

func (*throttled) Error() string { return "throttled" }

type panicky struct{}

func (panicky) Error() string   { return "panicky" }
func (panicky) Is(error) bool   { panic("in Is") }
func (panicky) As(any) bool     { panic("in As") }
func (panicky) Timeout() bool   { return true }
func (panicky) Temporary() bool { return true }

// is says that it is errBusy without wrapping it.
type is struct{ error }

func (is) Is(target error) bool { return target == errBusy }

func TestByError(t *testing.T) {
	const otherwise, busy, dial, hint, timeout, conflict = 1, 2, 3, 4, 5, 6
	p := retry.ByError(retry.Constant(otherwise),
		retry.Is(errBusy, retry.Constant(busy)),
		retry.Is(nil, retry.Constant(-99)),
		retry.As[*net.OpError](retry.Constant(dial)),
		retry.As[*fs.PathError](retry.Never()),
		retry.AsFunc(func(e *throttled) retry.Policy {
			if e == nil || e.after == 0 {
				return nil
			}
			return retry.Constant(e.after)
		}),
		retry.As[net.Error](retry.Constant(timeout)), // an interface; *net.OpError is one too, but has its rule before
		func(err error) retry.Policy {
			if strings.Contains(err.Error(), "conflict") {
				return retry.Table(0, conflict)
			}
			return nil
		})
	refused := fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: io.EOF})
	wrapped := fmt.Errorf("work: %w", fmt.Errorf("call: %w", errBusy))
	for _, tc := range []struct {
		name  string
		err   error
		delay time.Duration
		again bool
	}{
		{"the error itself", errBusy, busy, true},
		{"wrapped", wrapped, busy, true},
		{"by its Is method", is{errTest}, busy, true},
		{"joined", errors.Join(errTest, wrapped), busy, true},
		{"by its type", refused, dial, true},
		{"by its type, joined, wrapped", fmt.Errorf("all: %w", errors.Join(errTest, refused)), dial, true},
		{"two fit: the first rule", errors.Join(refused, errBusy), busy, true},
		{"never", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}, 0, false},
		{"never, but an earlier rule fits", errors.Join(&fs.PathError{Op: "open", Path: "x", Err: errBusy}), busy, true},
		{"its own hint", fmt.Errorf("send: %w", &throttled{hint}), hint, true},
		{"no hint", &throttled{}, otherwise, true},
		{"a nil pointer", (*throttled)(nil), otherwise, true},
		{"an interface", context.DeadlineExceeded, timeout, true},
		{"a rule of one's own, the attempt goes through", errors.New("409 conflict"), conflict, true},
		{"none fits", errTest, otherwise, true},
		{"a failure without an error", nil, otherwise, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d, again := p(2, &retry.Failure{Err: tc.err}); again != tc.again || again && d != tc.delay {
				t.Errorf("%d, %v; want %d, %v", d, again, tc.delay, tc.again)
			}
		})
	}
}

// No error at all is not one that is nil by errors.Is.
func TestByErrorOfNothing(t *testing.T) {
	if d, _ := retry.ByError(retry.Constant(1), retry.Is(nil, retry.Constant(2)))(1, nil); d != 1 {
		t.Errorf("the rule of a nil target applied: %d", d)
	}
}

// Rules nest, see the message's age, and keep to what they were made with.
func TestByErrorComposes(t *testing.T) {
	rules := []retry.Rule{retry.Is(errBusy, retry.LimitAge(retry.Constant(1), time.Minute))}
	inner := retry.ByError(retry.LimitAttempts(retry.Constant(2), 3), rules...)
	rules[0] = retry.Is(errBusy, retry.Never()) // must not reach the policy
	p := retry.ByError(inner, retry.Is(io.EOF, retry.Constant(3)))
	for _, tc := range []struct {
		attempt int
		err     error
		delay   time.Duration
		again   bool
	}{
		{1, &retry.Failure{Err: errBusy, Age: time.Second}, 1, true},
		{1, &retry.Failure{Err: errBusy, Age: time.Hour}, 0, false},
		{2, &retry.Failure{Err: errTest, Age: time.Hour}, 2, true},
		{3, &retry.Failure{Err: errTest}, 0, false},
		{9, &retry.Failure{Err: io.EOF}, 3, true},
		{1, nil, 2, true},
	} {
		if d, again := p(tc.attempt, tc.err); again != tc.again || again && d != tc.delay {
			t.Errorf("attempt %d, %v: %d, %v; want %d, %v", tc.attempt, tc.err, d, again, tc.delay, tc.again)
		}
	}
	if d, again := retry.ByError(retry.Constant(7))(1, errTest); d != 7 || !again {
		t.Errorf("without rules: %d, %v", d, again)
	}
}

// A panic in an error's methods reaches the Runner, which reports it: hidden here, nobody would learn of it. A rule before it is not disturbed.
func TestByErrorLetsPanicsThrough(t *testing.T) {
	for name, tc := range map[string]struct {
		rule retry.Rule
		want string
	}{
		"Is":     {retry.Is(errBusy, retry.Constant(2)), "in Is"},
		"As":     {retry.As[*net.OpError](retry.Constant(2)), "in As"},
		"AsFunc": {retry.AsFunc(func(panicky) retry.Policy { panic("in pick") }), "in pick"},
		"rule":   {func(error) retry.Policy { panic("in the rule") }, "in the rule"},
	} {
		t.Run(name, func(t *testing.T) {
			p := retry.ByError(retry.Constant(1), retry.As[panicky](retry.Constant(3)))
			if d, _ := p(1, panicky{}); d != 3 {
				t.Fatalf("no method is needed for its own type: %d", d)
			}
			defer func() {
				if got := fmt.Sprint(recover()); got != tc.want {
					t.Errorf("recovered %q, want %q", got, tc.want)
				}
			}()
			retry.ByError(retry.Constant(1), tc.rule)(1, &retry.Failure{Err: panicky{}})
			t.Error("it returned")
		})
	}
}

func TestRulesWithoutPoliciesPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"ByError needs": func() { retry.ByError(nil) },
		"ByError has":   func() { retry.ByError(retry.Never(), nil) },
		"Is needs":      func() { retry.Is(errBusy, nil) },
		"As needs":      func() { retry.As[*throttled](nil) },
		"AsFunc needs":  func() { retry.AsFunc[*throttled](nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.HasPrefix(text, "retry: "+name) {
					t.Errorf("recovered %q", text)
				}
			}()
			f()
		})
	}
}

// One policy serves all goroutines: for the race detector.
func TestByErrorFromManyGoroutines(t *testing.T) {
	p := retry.ByError(retry.Exponential(time.Second, time.Minute),
		retry.Is(errBusy, retry.Constant(2)), retry.AsFunc(func(e *throttled) retry.Policy { return retry.Constant(e.after) }))
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if d, _ := p(i, errBusy); d != 2 {
				t.Errorf("busy: %d", d)
			}
			if d, _ := p(i, &throttled{time.Duration(i)}); d != time.Duration(i) {
				t.Errorf("throttled: %d", d)
			}
		})
	}
	all.Wait()
}
