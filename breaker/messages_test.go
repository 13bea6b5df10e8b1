package breaker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/breaker"
	"github.com/ackfloor/ackfloor/testutil"
)

// A message that fails again and again is its own trouble: it opens nothing. As many messages as it takes do, in whatever order.
func TestOneMessageOpensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, breaker.Config{Failures: 3})
		first, second := r.next(), r.next()
		fail := func(context.Context) error { return errDown }
		for range 50 {
			if err := errors.Join(r.doWith(t.Context(), first, fail), r.doWith(t.Context(), second, fail)); paused(err) >= 0 {
				t.Fatalf("two messages opened it: %v", err)
			}
		}
		if err := r.fail(1); paused(err) != 10*time.Second {
			t.Errorf("the third: %v", err)
		}
		time.Sleep(10 * time.Second)
		for _, want := range []time.Duration{10 * time.Second, 10 * time.Second} { // as a trial it counts each time
			if err := r.doWith(t.Context(), first, fail); paused(err) != want {
				t.Errorf("as a trial: %v", err)
			}
			time.Sleep(want)
		}
		r.answer(nil)
		r.is(breaker.Closed)
		// What opened it the last time may again. A sequence of another stream is another message.
		third := *first
		third.Stream = "OTHER"
		for _, set := range [][]*ackfloor.Message{{first, second, &third}, {&third, second, first}} {
			for _, m := range set {
				r.is(breaker.Closed)
				r.doWith(t.Context(), m, fail)
			}
			r.is(breaker.Open)
			time.Sleep(10 * time.Second)
			r.answer(nil)
		}
	})
}

// A message is remembered until as many others have failed as it takes to open, less one.
func TestMessagesAreForgotten(t *testing.T) {
	r := newRig(t, breaker.Config{Failures: 4})
	fail := func(n uint64) {
		r.doWith(t.Context(), testutil.Message("events.order", nil, testutil.Sequence(n)), func(context.Context) error { return errDown })
	}
	for n := range uint64(8) {
		fail(n)
		r.answer(nil)
	}
	for _, n := range []uint64{5, 6, 7, 7, 6, 5, 8, 9, 10} { // 5 to 7 are known
		fail(n)
	}
	r.is(breaker.Closed)
	r.answer(nil)
	for _, n := range []uint64{8, 7, 6, 5} { // 7, 6 and 5 are forgotten
		fail(n)
	}
	r.is(breaker.Closed)
	fail(4)
	r.is(breaker.Open)
}
