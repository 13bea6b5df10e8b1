package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/breaker"
	"github.com/ackfloor/ackfloor/testutil"
)

var errDown = errors.New("the database is down")

// rig is a breaker around a handler that does what its caller says: the context carries it.
type rig struct {
	t       *testing.T
	b       *breaker.Breaker
	h       ackfloor.Handler
	mu      sync.Mutex
	seq     uint64
	calls   int
	changes []breaker.Change
}

type script struct{}

func newRig(t *testing.T, cfg breaker.Config) *rig {
	t.Helper()
	r := &rig{t: t}
	told := cfg.OnChange
	cfg.OnChange = func(c breaker.Change) {
		r.mu.Lock()
		r.changes = append(r.changes, c)
		r.mu.Unlock()
		if told != nil {
			told(c)
		}
	}
	var err error
	if r.b, err = breaker.New(cfg); err != nil {
		t.Fatal(err)
	}
	r.h = ackfloor.Chain(ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		r.mu.Lock()
		r.calls++
		r.mu.Unlock()
		return ctx.Value(script{}).(func(context.Context) error)(ctx)
	}), r.b.Wrap)
	return r
}

// do handles a new message by f.
func (r *rig) do(f func(context.Context) error) error { return r.doWith(r.t.Context(), r.next(), f) }

func (r *rig) next() *ackfloor.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	return testutil.Message("events.order", nil, testutil.Sequence(r.seq))
}

func (r *rig) doWith(ctx context.Context, m *ackfloor.Message, f func(context.Context) error) error {
	return r.h.Handle(context.WithValue(ctx, script{}, f), m)
}

// answer handles a new message, which the handler answers with err.
func (r *rig) answer(err error) error { return r.do(func(context.Context) error { return err }) }

// fail has n messages fail, and returns the last answer.
func (r *rig) fail(n int) (err error) {
	for range n {
		err = r.answer(errDown)
	}
	return err
}

// begin handles a new message in a goroutine until end is called with the handler's answer; end returns the breaker's.
func (r *rig) begin(ctx context.Context) (end func(error) error) {
	began, release, done := make(chan struct{}), make(chan error), make(chan error, 1)
	go func() {
		done <- r.doWith(ctx, r.next(), func(context.Context) error {
			close(began)
			return <-release
		})
	}()
	select {
	case <-began:
	case err := <-done:
		r.t.Fatalf("the call was refused: %v", err)
	}
	return func(err error) error {
		release <- err
		return <-done
	}
}

// refused tells whether an answer is a refusal, and its delay.
func refused(err error) (time.Duration, bool) {
	_, open := errors.AsType[*breaker.OpenError](err)
	return paused(err), open
}

// paused is the delay of a Pause, -1 where err is none.
func paused(err error) time.Duration {
	if p, ok := errors.AsType[*ackfloor.PauseError](err); ok {
		return p.Delay
	}
	return -1
}

// refuses checks that a call is refused, for that long, and not made.
func (r *rig) refuses(want time.Duration) {
	r.t.Helper()
	before := r.called()
	err := r.answer(nil)
	if d, ok := refused(err); !ok || d != want {
		r.t.Errorf("answered %v (Pause %v), want a refusal for %v", err, d, want)
	}
	if r.called() != before {
		r.t.Error("the handler was called all the same")
	}
}

func (r *rig) called() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

func (r *rig) is(want breaker.State) {
	r.t.Helper()
	if got := r.b.State(); got != want {
		r.t.Fatalf("%v, want %v", got, want)
	}
}

// saw checks the changes that OnChange was told, in short.
func (r *rig) saw(want ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []string
	for _, c := range r.changes {
		s := c.To.String()
		if c.To == breaker.Open {
			s = fmt.Sprintf("open %v", c.Delay)
		}
		got = append(got, s)
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("changes %q, want %q", got, want)
	}
	last := breaker.Closed
	for _, c := range r.changes {
		if c.From != last || (c.Err == nil) == (c.To == breaker.Open) {
			r.t.Errorf("after %v came %+v", last, c)
		}
		last = c.To
	}
}
