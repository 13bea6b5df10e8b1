package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

// A Runner is alive in every state that it may be in, with the server away too, and while a handler takes for ever; not when one of its loops hangs, and it says which.
func TestAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		alive := func(w *running) error {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			return w.Alive(ctx)
		}
		release := make(chan struct{})
		w := r.make(r.s.Conn(t), ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			<-release
			return nil
		}), func(c *Config) { c.Concurrency = 1 })
		if err := alive(w); err != nil {
			t.Errorf("before it runs: %v", err)
		}
		hang, hung := make(chan struct{}), make(chan struct{})
		var armed bool
		w.hook = func(point string) {
			if point == "tend" && armed {
				armed = false
				close(hung)
				<-hang
			}
		}
		w.run()
		w.working()
		time.Sleep(time.Minute)
		if err := alive(w); err != nil {
			t.Errorf("with its one slot held: %v", err)
		}
		s.Stop()
		time.Sleep(time.Minute)
		if err := alive(w); err != nil {
			t.Errorf("with the server away: %v", err)
		}
		s.Start()
		time.Sleep(10 * time.Second)

		w.conf.mu.Lock() // for the race detector: the hook is read by the loop below it
		armed = true
		w.conf.mu.Unlock()
		w.conf.alarm.by(0)
		<-hung
		if err := alive(w); err == nil || !strings.Contains(err.Error(), "settlements") {
			t.Errorf("with a loop that hangs: %v", err)
		}
		close(hang)
		if err := alive(w); err != nil {
			t.Errorf("when it goes on: %v", err)
		}
		close(release)
		r.floor(1, 20*time.Second)
		w.ok(w.end())
		if err := alive(w); err != nil {
			t.Errorf("when it has ended: %v", err)
		}
	})
}

// What the Runner calls inside of its parts shows too: a key that never comes, and an observer that waits.
func TestAliveWithCodeThatHangs(t *testing.T) {
	for name, tc := range map[string]struct {
		part string
		set  func(w *running, hang chan struct{})
		cfg  func(c *Config, hang chan struct{})
	}{
		"the key":      {"reader", func(*running, chan struct{}) {}, func(c *Config, hang chan struct{}) { c.Key = func(*ackfloor.Message) string { <-hang; return "" } }},
		"the observer": {"answers", func(w *running, hang chan struct{}) { w.OnSettled(func(Settled) { <-hang }) }, func(*Config, chan struct{}) {}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, testutil.Bubble(t), 1)
				hang := make(chan struct{})
				w := r.make(r.s.Conn(t), ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { return nil }), func(c *Config) { tc.cfg(c, hang) })
				tc.set(w, hang)
				w.run()
				w.working()
				time.Sleep(time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				if err := w.Alive(ctx); err == nil || !strings.Contains(err.Error(), tc.part) {
					t.Errorf("it is said to be alive: %v", err)
				}
				close(hang)
				if err := w.Alive(t.Context()); err != nil {
					t.Errorf("when it goes on: %v", err)
				}
				r.floor(1, 10*time.Second)
				w.ok(w.end())
			})
		})
	}
}

// One that has failed is not.
func TestAliveAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1)
		w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { return nil }))
		w.working()
		w.nc.Close()
		_ = w.wait(20 * time.Second)
		if err := w.Alive(t.Context()); err == nil {
			t.Error("it is said to be alive")
		}
	})
}

// A lock that is never given back shows too. (Not in virtual time, which stands still while a goroutine waits for a mutex.)
func TestAliveWithALockThatIsHeld(t *testing.T) {
	r := newRig(t, testutil.Server(t), 1)
	w := r.start(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { return nil }))
	w.working()
	w.buf.mu.Lock()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := w.Alive(ctx)
	w.buf.mu.Unlock()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it is said to be alive: %v", err)
	}
	if err := w.Alive(t.Context()); err != nil {
		t.Errorf("when the lock is free again: %v", err)
	}
	w.ok(w.end())
}
