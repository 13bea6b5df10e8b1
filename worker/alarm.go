package worker

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// clock counts time from the Runner's making, so that a moment is one word, and monotonic.
type clock struct{ base time.Time }

func (c clock) now() time.Duration { return time.Since(c.base) }

const never = time.Duration(math.MaxInt64)

// alarm wakes one loop no later than the earliest moment that anyone asked for. Asking costs one atomic load where the
// loop wakes early enough anyway, so the hot path may ask for every message.
type alarm struct {
	next  atomic.Int64
	ring  chan struct{}
	turns atomic.Uint64 // how often its loop went round
}

func newAlarm() *alarm {
	a := &alarm{ring: make(chan struct{}, 1)}
	a.next.Store(int64(never))
	return a
}

// by asks for a wake-up at t or before.
func (a *alarm) by(t time.Duration) {
	for {
		n := a.next.Load()
		if int64(t) >= n {
			return
		}
		if a.next.CompareAndSwap(n, int64(t)) {
			select {
			case a.ring <- struct{}{}:
			default:
			}
			return
		}
	}
}

// loop calls scan at each moment asked for, until ctx ends. scan tells when it is due again by itself, or never.
func (a *alarm) loop(ctx context.Context, c clock, scan func(now time.Duration) time.Duration) {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.ring:
		case <-timer.C:
		}
		if now := c.now(); now >= time.Duration(a.next.Load()) {
			a.next.Store(int64(never))
			a.by(scan(now))
			a.turns.Add(1)
		}
		if next := time.Duration(a.next.Load()); next != never {
			timer.Reset(next - c.now())
		}
	}
}
