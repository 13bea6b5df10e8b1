package shop

import (
	"testing"
	"time"

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

func firstNonZero(a, b time.Time) time.Time {
	if a.IsZero() {
		return b
	}
	return a
}
