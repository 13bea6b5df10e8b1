package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

// In a bubble a handler that does nothing takes no time at all, so the reader calls it itself.

// A handler that was fast and then is not: what arrives is read all the same, and handled by others.
func TestReaderIsNotHeldUpByAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 100)
		release := make(chan struct{})
		var stuck atomic.Int32
		w := r.start(ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
			if m.Sequence == 120 || m.Sequence == 150 || m.Sequence == 151 {
				stuck.Add(1)
				<-release
			}
			return nil
		}))
		r.floor(100, 5*time.Second)
		if w.counters.insideReader.Load() == 0 {
			t.Fatal("the reader has called no handler: this test shows nothing")
		}
		s.Events(t, 100)
		r.calls.Wait(t, 197, 5*time.Second) // all but the three that hang
		if running := w.Status().Running; running != 3 || stuck.Load() != 3 {
			t.Errorf("%d run, %d hang", running, stuck.Load())
		}
		close(release)
		r.floor(200, 5*time.Second)
		r.onceEach(200)
		w.ok(w.end())
	})
}

// Never more handlers at once than slots, the reader's own call included.
func TestReaderCountsAsASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 60)
		var slow atomic.Bool
		w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			if slow.Load() {
				time.Sleep(time.Second)
			}
			return nil
		}), func(c *Config) { c.Concurrency = 2 })
		r.floor(60, 5*time.Second)
		slow.Store(true)
		s.Events(t, 20)
		r.floor(80, 30*time.Second)
		if n := r.calls.MaxConcurrent(); n != 2 {
			t.Errorf("%d handlers at once with 2 slots", n)
		}
		r.onceEach(80)
		w.ok(w.end())
	})
}

// A panic, and runtime.Goexit, in a handler that the reader has called: reading goes on.
func TestReaderSurvivesItsHandlers(t *testing.T) {
	for name, fault := range map[string]ackfloor.Handler{"panic": testutil.Panic("boom"), "Goexit": testutil.Goexit()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 100)
				w := r.start(ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
					if m.Sequence%20 == 19 && m.Attempt == 1 {
						return fault.Handle(ctx, m)
					}
					return nil
				}))
				r.floor(100, 10*time.Second)
				if c := w.Status().Counts; c.Panics != 5 || c.Acked != 100 || w.counters.insideReader.Load() < 20 {
					t.Errorf("%+v, %d by the reader", c, w.counters.insideReader.Load())
				}
				w.ok(w.end())
			})
		})
	}
}

// A stop while the reader is in a handler that ignores its context.
func TestStopWhileTheReaderIsInAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 50)
		var hang atomic.Bool
		w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			if hang.Load() {
				time.Sleep(20 * time.Second)
			}
			return nil
		}), func(c *Config) { c.DrainTimeout = 500 * time.Millisecond })
		r.floor(50, 5*time.Second)
		hang.Store(true)
		s.Events(t, 1)
		r.calls.WaitStarted(t, 51, time.Second)
		err := w.end()
		var broken *DrainError
		if !errors.As(err, &broken) || len(broken.Abandoned) != 1 || w.took > 700*time.Millisecond {
			t.Errorf("Run returned %v after %v", err, w.took)
		}
		time.Sleep(20 * time.Second)
	})
}

// An outlier does not keep the reader from calling fast handlers, and a slow one is not called by it.
func TestTypicalTime(t *testing.T) {
	b := newBuffer(1, time.Minute)
	for range 100 {
		b.learnLocked(time.Microsecond)
	}
	b.learnLocked(900 * time.Microsecond)
	if b.typical >= fastHandler {
		t.Errorf("typical is %v after one outlier", b.typical)
	}
	b.learnLocked(20 * time.Millisecond) // the reader was in it for long
	if b.typical < fastHandler {
		t.Errorf("typical is %v after a call that held up the reader", b.typical)
	}
	for range 100 {
		b.learnLocked(time.Millisecond)
	}
	if b.typical < 500*time.Microsecond {
		t.Errorf("typical is %v after 100 of 1ms", b.typical)
	}
}
