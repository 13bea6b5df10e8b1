package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

// The last failures are there to be looked at: bounded, newest first, printable, without secrets.
func TestFailuresAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 50)
		w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			switch {
			case m.Sequence <= 40:
				return ackfloor.Permanent(fmt.Errorf("no %d", m.Sequence))
			case m.Sequence == 41 && m.Attempt == 1:
				panic("boom\x1b[2J")
			case m.Sequence == 42 && m.Attempt == 1:
				return errors.New("get postgres://bob:hunter2@db/x: " + strings.Repeat("x", 5000))
			}
			return nil
		}), func(c *Config) { c.Concurrency = 1 })
		r.floor(50, 10*time.Second)
		all := w.Failures()
		if len(all) != failuresKept {
			t.Fatalf("%d failures are kept", len(all))
		}
		if !slices.IsSortedFunc(all, func(a, b Failure) int { return b.At.Compare(a.At) }) {
			t.Error("the newest does not come first")
		}
		last, before := all[0], all[1]
		if last.Sequence != 42 || last.Then != "retried" || last.Reason != "failed" || last.Attempt != 1 || len(last.Error) > 1100 || strings.Contains(last.Error, "hunter2") {
			t.Errorf("the last one is %+v", last)
		}
		if before.Sequence != 41 || before.Reason != "panicked" || before.Error != `panic: boom\x1b[2J` {
			t.Errorf("the one before is %+v", before)
		}
		if all[2].Sequence != 40 || all[2].Then != "terminated" || all[2].Reason != "permanent" || all[2].Subject != "events.39" {
			t.Errorf("the one before that is %+v", all[2])
		}
		w.ok(w.end())
	})
}

// A dead letter says so, and what fails again as a replay is shown by the Runner whose message it is.
func TestFailuresOfReplaysAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1)
		withLetters(&r.cfg)
		w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { return ackfloor.Permanent(errors.New("never")) }))
		letters := r.awaitLetters(1, 10*time.Second)
		r.replay(letters...)
		for range 100 {
			if len(w.Failures()) == 2 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		all := w.Failures()
		if len(all) != 2 || all[0].Sequence != 1 || all[0].Then != "dead-lettered" || all[0].Subject != all[1].Subject {
			t.Errorf("remembered %+v", all)
		}
		w.ok(w.end())
	})
}
