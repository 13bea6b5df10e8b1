package testutil

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
)

// Recorder records every call of a handler. It is a handler that succeeds itself, and Wrap records the calls of another.
// The zero value is ready; it may be used from any number of goroutines. It keeps every payload.
type Recorder struct {
	mu      sync.Mutex
	calls   []Call
	clock   int           // counts starts and ends, so that their order is known also where the time is the same
	changed chan struct{} // closed at the next start or end; nil while nobody waits
}

// Call is one call of a handler.
type Call struct {
	Sequence uint64
	Attempt  int
	Subject  string
	Data     []byte
	Start    time.Time
	End      time.Time // zero while the call is under way
	Err      error     // what the handler returned
	Cause    error     // context.Cause of its context at the end; nil when that had not ended
	NoReturn bool      // it ended by a panic or runtime.Goexit

	from, to int // by the recorder's clock; to is 0 while the call is under way
}

// Handle records the call and returns nil.
func (r *Recorder) Handle(ctx context.Context, m *ackfloor.Message) error {
	return r.Wrap(Succeed()).Handle(ctx, m)
}

// Wrap returns a handler that calls h and records that. It is an ackfloor.Middleware.
func (r *Recorder) Wrap(h ackfloor.Handler) ackfloor.Handler {
	return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) (err error) {
		i := r.begin(m)
		returned := false
		defer func() { r.end(i, err, context.Cause(ctx), !returned) }()
		err = h.Handle(ctx, m)
		returned = true
		return err
	})
}

func (r *Recorder) begin(m *ackfloor.Message) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tick()
	r.calls = append(r.calls, Call{
		Sequence: m.Sequence, Attempt: m.Attempt, Subject: m.Subject, Data: m.Data, Start: time.Now(), from: r.clock,
	})
	return len(r.calls) - 1
}

func (r *Recorder) end(i int, err, cause error, noReturn bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tick()
	c := &r.calls[i]
	c.End, c.Err, c.Cause, c.NoReturn, c.to = time.Now(), err, cause, noReturn, r.clock
}

// tick counts one event and wakes who waits for one. Under r.mu.
func (r *Recorder) tick() {
	r.clock++
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Calls returns the calls so far in the order in which they began, those under way too (their End is zero).
func (r *Recorder) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// Sequences returns the sequences of the calls so far in the order in which these began.
func (r *Recorder) Sequences() []uint64 {
	var all []uint64
	for _, c := range r.Calls() {
		all = append(all, c.Sequence)
	}
	return all
}

// Count tells how often the handler was called with the message of this sequence.
func (r *Recorder) Count(sequence uint64) int {
	n := 0
	for _, c := range r.Calls() {
		if c.Sequence == sequence {
			n++
		}
	}
	return n
}

// Distinct tells with how many different messages (by sequence) the handler was called.
func (r *Recorder) Distinct() int { return distinct(r.Calls()) }

func distinct(calls []Call) int {
	seen := map[uint64]bool{}
	for _, c := range calls {
		seen[c.Sequence] = true
	}
	return len(seen)
}

// MaxConcurrent tells how many calls were under way at once at most.
func (r *Recorder) MaxConcurrent() int {
	return r.MaxConcurrentOf(func(Call) string { return "" })
}

// MaxConcurrentOf tells how many calls with the same key were under way at once at most.
func (r *Recorder) MaxConcurrentOf(key func(Call) string) int {
	type event struct {
		at, change int
		key        string
	}
	var events []event
	for _, c := range r.Calls() {
		events = append(events, event{c.from, +1, key(c)})
		if c.to != 0 {
			events = append(events, event{c.to, -1, key(c)})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	most, now := 0, map[string]int{}
	for _, e := range events {
		now[e.key] += e.change
		most = max(most, now[e.key])
	}
	return most
}

// Wait waits until n calls have ended and returns all calls. It fails the test when that takes longer than limit.
func (r *Recorder) Wait(t testing.TB, n int, limit time.Duration) []Call {
	t.Helper()
	return r.wait(t, limit, fmt.Sprintf("%d calls to end", n), func(calls []Call) bool { return len(ended(calls)) >= n })
}

// WaitStarted waits until n calls have begun and returns all calls. It fails the test when that takes longer than limit.
func (r *Recorder) WaitStarted(t testing.TB, n int, limit time.Duration) []Call {
	t.Helper()
	return r.wait(t, limit, fmt.Sprintf("%d calls to begin", n), func(calls []Call) bool { return len(calls) >= n })
}

// WaitDistinct waits until calls with n different messages (by sequence) have ended and returns all calls. It fails the
// test when that takes longer than limit.
func (r *Recorder) WaitDistinct(t testing.TB, n int, limit time.Duration) []Call {
	t.Helper()
	return r.wait(t, limit, fmt.Sprintf("calls with %d messages to end", n),
		func(calls []Call) bool { return distinct(ended(calls)) >= n })
}

func (r *Recorder) wait(t testing.TB, limit time.Duration, what string, ok func([]Call) bool) []Call {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		r.mu.Lock()
		calls := slices.Clone(r.calls)
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed := r.changed
		r.mu.Unlock()
		if ok(calls) {
			return calls
		}
		select {
		case <-changed:
		case <-timer.C:
			t.Fatalf("testutil.Recorder: after %v still waiting for %s; %s", limit, what, summary(calls))
		}
	}
}
