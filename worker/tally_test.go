package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// quiet logs from warnings on: with debug lines every failure has its own.
func quiet(r *rig) {
	core, logs := observer.New(zapcore.WarnLevel)
	r.cfg.Logger, r.logs = zap.New(core), logs
}

// sums adds up what lines say of failures: the lines of their own, and those that were summed up.
func (r *rig) sums(what string) (lines, more int) {
	for _, e := range r.logs.All() {
		switch e.Message {
		case what:
			lines++
		case "more failures like the last ones: " + what:
			more += int(e.ContextMap()["more"].(int64))
		}
	}
	return lines, more
}

// A hundred thousand failures make a few dozen lines, and the lines account for each.
func TestFailuresAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		messages := 20000 // five attempts each
		if testing.Short() {
			messages = 2000
		}
		r := newRig(t, testutil.Bubble(t), messages)
		quiet(r)
		w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			if m.Sequence == uint64(messages/2) {
				return fmt.Errorf("another error, of message %d alone", m.Sequence)
			}
			return fmt.Errorf("order %d: dial tcp 10.0.0.%d:5432: connection refused", m.Sequence, m.Sequence%250)
		}), func(c *Config) { c.RetrySchedule, c.MaxAckPending = "10ms", 1000 })
		r.floor(uint64(messages), 5*time.Minute)
		w.ok(w.end())
		retries, moreRetries := r.sums("failed: will be tried again")
		ends, moreEnds := r.sums("given up: terminated")
		if retries+moreRetries != 4*messages || ends+moreEnds != messages {
			t.Errorf("%d + %d retries and %d + %d ends are accounted for, of %d and %d", retries, moreRetries, ends, moreEnds, 4*messages, messages)
		}
		windows := int(w.took/tallyWindow) + int(time.Since(r.logs.All()[0].Time)/tallyWindow) + 1
		if n := r.logs.Len(); n > 4*(tallyLines+1)*windows {
			t.Errorf("%d lines in %d windows", n, windows)
		}
		if r.logged("another error") != 0 || r.logs.FilterField(zap.String("error", fmt.Sprintf("another error, of message %d alone", messages/2))).Len() != 5 {
			t.Error("a rare failure drowned in the flood")
		}
		t.Logf("%d failures, %d lines", 5*messages, r.logs.Len())
	})
}

// The sum is written when the window ends, also when nothing fails any more; and at the end of Run.
func TestSumsAreWrittenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 30)
		quiet(r)
		w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			if m.Attempt == 1 {
				return fmt.Errorf("not yet, %d", m.Sequence)
			}
			return nil
		}))
		r.floor(30, 5*time.Second)
		if lines, more := r.sums("failed: will be tried again"); lines != tallyLines || more != 0 {
			t.Errorf("within the window there are %d lines, and %d summed up", lines, more)
		}
		time.Sleep(tallyWindow)
		if _, more := r.sums("failed: will be tried again"); more != 20 {
			t.Errorf("%d of 20 are summed up when the window has ended", more)
		}
		w.ok(w.end())

		r = newRig(t, testutil.Bubble(t), 30)
		quiet(r)
		w = r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			return ackfloor.Permanent(fmt.Errorf("no, %d", m.Sequence))
		}))
		r.floor(30, 5*time.Second)
		w.ok(w.end())
		if lines, more := r.sums("given up: terminated"); lines != tallyLines || more != 20 {
			t.Errorf("when Run has ended there are %d lines, and %d summed up", lines, more)
		}
	})
}

// However many kinds of errors there are, memory and lines are bounded, and nothing is left out of the sums.
func TestTallyIsBounded(t *testing.T) {
	a := newTally()
	own, n := 0, 10000
	for i := range n {
		text := strings.Repeat(string(rune('a'+i%26))+string(rune('a'+i/26%26)), 100+i%7)
		if a.add("failed", zapcore.WarnLevel, "failed", text, uint64(i), 0) {
			own++
		}
	}
	if len(a.kinds) > tallyKinds+1 {
		t.Errorf("%d kinds are kept", len(a.kinds))
	}
	ended, next := a.over(tallyWindow)
	for _, k := range ended {
		own += k.more
	}
	if own != n || next != never || len(a.kinds) != 0 {
		t.Errorf("%d of %d are accounted for; next %v, %d left", own, n, next, len(a.kinds))
	}
}

func BenchmarkTally(b *testing.B) {
	a := newTally()
	text := "order 12345: dial tcp 10.0.0.17:5432: connect: connection refused"
	b.ReportAllocs()
	for i := range b.N {
		a.add("failed: will be tried again", zapcore.WarnLevel, "failed", text, uint64(i), 0)
	}
}
