package limit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/limit"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"golang.org/x/time/rate"
)

// byData is the key of the tests: the message's text.
func byData(m *ackfloor.Message) string { return string(m.Data) }

// Each key has its own limit, and one that has used it up holds up nobody else while there are free slots.
func TestKeysUnderAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		js := r.s.JetStream(t)
		for i := range 60 {
			key := "quiet" // one in four
			if i%4 > 0 {
				key = "busy"
			}
			if _, err := js.Publish(t.Context(), "events.x", []byte(key)); err != nil {
				t.Fatal(err)
			}
		}
		g := must[*limit.Keyed](t)(limit.ByKey(limit.KeyConfig{Key: byData, Limit: 1, Burst: 1}))
		w := r.start(g, testutil.Succeed(), func(c *worker.Config) { c.Concurrency = 64 })
		r.once(r.settled("D", 60, time.Minute), 60)
		last := map[string]time.Duration{}
		for key, n := range map[string]int{"busy": 45, "quiet": 15} {
			var starts []time.Time
			for _, c := range r.calls.Calls() {
				if string(c.Data) == key {
					starts = append(starts, c.Start)
				}
			}
			holds(t, starts, 1, 1)
			if last[key] = starts[n-1].Sub(starts[0]); len(starts) != n || last[key] != time.Duration(n-1)*time.Second {
				t.Errorf("%s: %d in %v", key, len(starts), last[key])
			}
		}
		if g.Keys() > 1 {
			t.Errorf("%d keys are remembered", g.Keys())
		}
		w.ended()
	})
}

// However many keys come, no more than Keys are remembered, each keeps to its limit, and when all have rested none is remembered.
func TestKeysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 20
		g := must[*limit.Keyed](t)(limit.ByKey(limit.KeyConfig{Key: byData, Limit: 2, Burst: 3, Keys: most}))
		var mu sync.Mutex
		starts := map[string][]time.Time{}
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(i)))
				for range 200 {
					key := fmt.Sprint(random.IntN(100))
					ctx, cancel := context.WithCancel(t.Context())
					if random.IntN(5) == 0 { // as at a stop
						time.AfterFunc(time.Duration(random.IntN(300))*time.Millisecond, cancel)
					}
					_, err := g.Enter(ctx, testutil.Message("events.x", key))
					cancel()
					if n := g.Keys(); n > most {
						t.Errorf("%d keys are remembered", n)
					}
					if err == nil {
						mu.Lock()
						starts[key] = append(starts[key], time.Now())
						mu.Unlock()
					}
				}
			})
		}
		all.Wait()
		passed := 0
		for _, s := range starts {
			holds(t, s, 2, 3)
			passed += len(s)
		}
		if passed < 16*200*3/4 {
			t.Errorf("%d passed", passed)
		}
		time.Sleep(2 * time.Second)
		if n := g.Keys(); n != 0 {
			t.Errorf("%d keys are remembered though all have rested", n)
		}
	})
}

// With no room left a new key waits until another has rested, or its context ends; a known one does not.
func TestNoRoomForAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must[*limit.Keyed](t)(limit.ByKey(limit.KeyConfig{Key: byData, Limit: 0.5, Burst: 2, Keys: 1}))
		began := time.Now()
		enter := func(ctx context.Context, key string) (time.Duration, error) {
			_, err := g.Enter(ctx, testutil.Message("events.x", key))
			return time.Since(began), err
		}
		for _, want := range []struct {
			key string
			at  time.Duration
		}{{"a", 0}, {"a", 0}, {"", 0}, {"b", 4 * time.Second}, {"b", 4 * time.Second}, {"b", 6 * time.Second}} {
			if at, err := enter(t.Context(), want.key); err != nil || at != want.at {
				t.Errorf("%q passed after %v (%v), want %v", want.key, at, err, want.at)
			}
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, ackfloor.ErrStopping)
		defer cancel()
		if at, err := enter(ctx, "c"); err != ackfloor.ErrStopping || at != 7*time.Second {
			t.Errorf("%v after %v", err, at)
		}
	})
}

// By weight, what is heavier than the burst fails for good, and a message without a key or a weight passes.
func TestKeysByWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must[*limit.Keyed](t)(limit.ByKey(limit.KeyConfig{Key: func(m *ackfloor.Message) string { return m.Subject }, Limit: 10, Burst: 100, Weight: limit.Bytes}))
		began := time.Now()
		for _, size := range []int{60, 60, 60} {
			if _, err := g.Enter(t.Context(), testutil.Message("a", make([]byte, size))); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != 8*time.Second {
			t.Errorf("180 bytes at 10 a second and 100 at once took %v", took)
		}
		if _, err := g.Enter(t.Context(), testutil.Message("a", make([]byte, 101))); err == nil || time.Since(began) != 8*time.Second {
			t.Errorf("%v", err)
		}
	})
}

func TestKeyFaults(t *testing.T) {
	_, err := limit.ByKey(limit.KeyConfig{Keys: -1})
	faulty(t, err, "Key is nil", "Limit is 0", "Burst is 0", "Keys is -1")
	_, err = limit.ByKey(limit.KeyConfig{Key: byData, Limit: rate.Inf, Keys: 10_000_001})
	faulty(t, err, "Keys is 10000001")
	g := must[*limit.Keyed](t)(limit.ByKey(limit.KeyConfig{Key: byData, Limit: rate.Inf}))
	for range 3 {
		if _, err := g.Enter(t.Context(), testutil.Message("a", "x")); err != nil || g.Keys() != 0 {
			t.Errorf("%v, %d keys", err, g.Keys())
		}
	}
}
