package shop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
)

func ExampleShow() {
	Show(testutil.Message("events.order_placed", nil, testutil.Sequence(9)), "order %s: reserved", "1001")
	Show(testutil.Message("events.order_placed", nil, testutil.Attempt(2)), "order %s", "\x1b[2J\n\"x\" é")
	// Output:
	//   #9   events.order_placed    attempt 1  order 1001: reserved
	//   #1   events.order_placed    attempt 2  order \x1b[2J\n"x" é
}

func TestCursorIsDueWhenWorkHasSettled(t *testing.T) {
	t.Parallel()
	var p progress
	at := time.Now()
	for i, step := range []struct {
		settled uint64
		running int
		after   time.Duration // the step before
		want    bool
	}{
		{0, 0, tick, false}, // nothing was handled yet
		{0, 1, tick, false},
		{3, 1, tick, false}, // work goes on
		{5, 0, tick, false}, // changed since the last look
		{5, 0, tick, false},
		{5, 0, tick, true},
		{5, 0, tick, false}, // shown already
		{6, 1, tick, false},
		{9, 1, busyShow, true}, // work that never ends
		{12, 1, tick, false},
	} {
		at = at.Add(step.after)
		p.at = firstNonZero(p.at, at) // the clock of the table begins with it
		s := worker.Status{Running: step.running, Counts: worker.Counts{Acked: step.settled}}
		if got := p.due(s, at); got != step.want {
			t.Errorf("step %d: due = %v, want %v", i, got, step.want)
		}
	}
}

// A pause is said once, with its reason, and again when the reason has changed or work went on in between; it is not said of each message, and not as a failure of it.
func TestPauseIsSaidOncePerChange(t *testing.T) {
	t.Parallel()
	out := ackfloor.Pause(time.Second, errors.New("the mail server\nis out"))
	for _, batch := range []bool{false, true} {
		var said []string
		d := &display{begin: func() {}, say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
		handle := func(err error) error {
			return d.middleware(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { return err })).Handle(t.Context(), testutil.Message("events.order_placed", nil))
		}
		if batch {
			handle = func(err error) error {
				h := d.batches(ackfloor.BatchHandlerFunc(func(context.Context, *ackfloor.Batch) error { return err }))
				return h.HandleBatch(t.Context(), ackfloor.NewBatch(testutil.Message("events.order_placed", nil)))
			}
		}
		for _, err := range []error{nil, out, out, fmt.Errorf("wrapped: %w", out), out, nil, nil, out} {
			if got := handle(err); got != err {
				t.Errorf("%v became %v", err, got)
			}
		}
		want := `paused: the mail server\nis out|paused: wrapped: the mail server\nis out|paused: the mail server\nis out|paused: the mail server\nis out`
		if got := strings.Join(said, "|"); got != want {
			t.Errorf("batch %v: it said\n%s, want\n%s", batch, got, want)
		}
	}
}

// The stream of dead letters that an example makes fits on a small disk, unless told otherwise.
func TestDeadLettersAreSmallByDefault(t *testing.T) {
	for set, want := range map[string]int64{"": 64 << 20, "2097152": 2 << 20} {
		t.Setenv("WORKER_DEAD_LETTER_BYTES", set)
		t.Setenv("WORKER_STREAM", "")
		t.Setenv("WORKER_CONSUMER", "")
		t.Setenv("WORKER_FILTER", "")
		t.Setenv("WORKER_START", "")
		t.Setenv("WORKER_LOG_LEVEL", "")
		Service{Consumer: "email", Filter: "events.order_placed", Start: "all"}.setDefaults()
		cfg, err := worker.FromEnv("")
		if err != nil || cfg.DeadLetterBytes != want {
			t.Errorf("%q: %d bytes, %v", set, cfg.DeadLetterBytes, err)
		}
	}
}

func firstNonZero(a, b time.Time) time.Time {
	if a.IsZero() {
		return b
	}
	return a
}
