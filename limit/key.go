package limit

import (
	"container/heap"
	"context"
	"math"
	"sync"
	"time"

	"github.com/ackfloor/ackfloor"
	"golang.org/x/time/rate"
)

// KeyConfig is what ByKey takes.
type KeyConfig struct {
	Key    func(*ackfloor.Message) string // whose limit it is: a customer, a host; "" passes without one. Called from several goroutines at once
	Limit  rate.Limit                     // messages a second of each key, above 0
	Burst  int                            // messages at once of each key, from 1
	Weight func(*ackfloor.Message) int    // what a message counts, as in RateBy; default 1 each
	Keys   int                            // keys that are remembered at once, 1 to 10000000; default 10000. Each takes some 200 bytes and its text
}

// Keyed is a limit of the rate for each key by itself. Make one with ByKey.
type Keyed struct {
	cfg KeyConfig

	mu    sync.Mutex
	byKey map[string]*keyed
	full  fullest
}

// keyed is one key that has not rested since it took all that it may.
type keyed struct {
	*paced
	key    string
	users  int       // messages at its gate
	fullAt time.Time // from then on it may take its whole burst, so nothing has to be remembered of it
	place  int       // in the heap
}

// ByKey limits the rate of each key by itself. It returns a *ConfigError for what could never work, with all faults.
//
// A key is forgotten when it may take its whole burst again, since then it is like a new one: so the limit is exact, and what is remembered are the keys
// of the last Burst/Limit seconds. Where these would be more than Keys, a message of another key waits until one is forgotten.
//
// A message over its key's limit waits in a slot. A key with a long backlog so takes slot after slot, until others wait behind it that would be free to go:
// where that matters, give such keys a consumer of their own.
func ByKey(c KeyConfig) (*Keyed, error) {
	if c.Keys == 0 {
		c.Keys = 10_000
	}
	var f faults
	if c.Key == nil {
		f = append(f, "Key is nil: give the function that tells whose limit a message is under")
	}
	f.limiter(c.Limit, c.Burst)
	f.check(c.Keys >= 1 && c.Keys <= 10_000_000, "Keys", c.Keys, "a whole number from 1 to 10000000")
	if err := f.err(); err != nil {
		return nil, err
	}
	return &Keyed{cfg: c, byKey: make(map[string]*keyed)}, nil
}

// Keys is how many keys are remembered at this moment, for a metric: at KeyConfig.Keys, new ones wait.
func (k *Keyed) Keys() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgetLocked(time.Now(), len(k.full))
	return len(k.full)
}

// Enter implements Gate.
func (k *Keyed) Enter(ctx context.Context, m *ackfloor.Message) (func(error), error) {
	key, n := k.cfg.Key(m), weigh(k.cfg.Weight, m)
	if key == "" || n == 0 {
		return nil, nil
	}
	e, err := k.begin(ctx, key)
	if err != nil {
		return nil, err
	}
	defer k.end(e)
	return nil, e.pass(ctx, n)
}

// begin waits until there is room for a key, and keeps it from being forgotten.
func (k *Keyed) begin(ctx context.Context, key string) (*keyed, error) {
	for {
		e, wait := k.find(key)
		if e != nil {
			return e, nil
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// find finds a key or makes it; where there is no room for it, it tells how long it takes until there may be.
func (k *Keyed) find(key string) (*keyed, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.byKey[key]
	if e == nil {
		now := time.Now()
		k.forgetLocked(now, 2) // two for each that comes: so they do not pile up where there is room
		if len(k.full) >= k.cfg.Keys {
			return nil, max(k.full[0].fullAt.Sub(now), inUse)
		}
		e = &keyed{paced: newPaced(rate.NewLimiter(k.cfg.Limit, k.cfg.Burst), nil), key: key, fullAt: now}
		k.byKey[key] = e
		heap.Push(&k.full, e)
	}
	e.users++
	return e, 0
}

// end notes until when a key has to be remembered.
func (k *Keyed) end(e *keyed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e.users--
	now := time.Now()
	e.fullAt = now.Add(k.rest(e.l.TokensAt(now)))
	heap.Fix(&k.full, e.place)
}

// inUse is when to look again at a key that could be forgotten but for those that wait at its gate.
const inUse = 10 * time.Millisecond

// rest is how long a key has to rest until its burst is whole again, rounded up.
func (k *Keyed) rest(tokens float64) time.Duration {
	s := (float64(k.cfg.Burst) - tokens) / float64(k.cfg.Limit) // 0 for rate.Inf
	return time.Duration(min(math.Ceil(max(0, s)*float64(time.Second)), float64(endless)))
}

// forgetLocked forgets keys that have rested, looking at so many.
func (k *Keyed) forgetLocked(now time.Time, most int) {
	for range most {
		if len(k.full) == 0 || k.full[0].fullAt.After(now) {
			return
		}
		if e := k.full[0]; e.users > 0 {
			e.fullAt = now.Add(inUse)
			heap.Fix(&k.full, 0)
		} else {
			heap.Pop(&k.full)
			delete(k.byKey, e.key)
		}
	}
}

// fullest is a heap of keys: first the one that has rested soonest.
type fullest []*keyed

func (f fullest) Len() int           { return len(f) }
func (f fullest) Less(i, j int) bool { return f[i].fullAt.Before(f[j].fullAt) }
func (f fullest) Swap(i, j int) {
	f[i], f[j] = f[j], f[i]
	f[i].place, f[j].place = i, j
}

// Push implements heap.Interface.
func (f *fullest) Push(x any) {
	e := x.(*keyed)
	e.place = len(*f)
	*f = append(*f, e)
}

// Pop implements heap.Interface.
func (f *fullest) Pop() any {
	last := len(*f) - 1
	e := (*f)[last]
	(*f)[last] = nil
	*f = (*f)[:last]
	return e
}
