package worker

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	stressSeed = flag.Uint64("stress.seed", 1, "seed of the first run of the stress test's faults")
	stressRuns = flag.Uint64("stress.runs", 3, "runs of the stress test, each with the next seed")
)

// The stress test: two workers handle 300 messages, some of which fail, panic, hang, or fail always, while workers are killed and stopped, the server
// restarts, the bucket is deleted, dead letters can't be written, handlers pause and letters are replayed, at random. Each message ends handled or as one
// dead letter, nothing is held at the end, and stops end. Run it with seeds of your own:
//
//	go test ./worker -run TestStress -stress.seed 100 -stress.runs 50
func TestStress(t *testing.T) {
	for seed := *stressSeed; seed < *stressSeed+*stressRuns; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newStress(t, seed).run(2) })
		})
	}
}

// The same with one worker that keeps the order of seven keys, whatever happens.
func TestStressInOrder(t *testing.T) {
	for seed := *stressSeed; seed < *stressSeed+(*stressRuns+1)/3; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newStress(t, seed)
				st.first = make(map[uint64][]uint64)
				st.run(1)
			})
		})
	}
}

// The same with two workers that handle batches.
func TestStressInBatches(t *testing.T) {
	for seed := *stressSeed; seed < *stressSeed+(*stressRuns+1)/3; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newStress(t, seed)
				st.batches = true
				st.run(2)
			})
		})
	}
}

// handleBatch handles a batch one message beside the other, and returns what became of each.
func (st *stress) handleBatch(ctx context.Context, b *ackfloor.Batch) error {
	failed := make(map[int]error)
	var mu sync.Mutex
	var each sync.WaitGroup
	for i, m := range b.Messages {
		each.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					b.Fail(i, fmt.Errorf("panic: %v", p))
				}
			}()
			mu.Lock()
			failed[i] = errWork // unless it returns
			mu.Unlock()
			err := st.handle(ctx, m)
			mu.Lock()
			defer mu.Unlock()
			failed[i] = err
		})
	}
	each.Wait()
	return &ackfloor.BatchError{Errors: failed}
}

// keyOfSequence is the key in that test.
func keyOfSequence(m *ackfloor.Message) string { return fmt.Sprint("key ", m.Sequence%7) }

const stressMessages = 300

type stress struct {
	t      *testing.T
	rng    *rand.Rand // of the faults
	s      *testutil.S
	r      *rig
	ws     []*running
	pauses bool

	mu      sync.Mutex
	chance  *rand.Rand     // of the handlers
	done    map[uint64]int // handled, by sequence
	outage  time.Time      // until then handlers pause
	batches bool
	first   map[uint64][]uint64 // first successes in their order, by key; nil: no keys
}

func newStress(t *testing.T, seed uint64) *stress {
	s := testutil.Bubble(t)
	st := &stress{t: t, s: s, r: newRig(t, s, stressMessages), rng: rand.New(rand.NewPCG(seed, 7)), chance: rand.New(rand.NewPCG(seed, 8)), done: make(map[uint64]int)}
	st.pauses = st.rng.IntN(2) == 0
	return st
}

func (st *stress) start() *running {
	claims.Clear() // as in another process
	var h ackfloor.Handler = ackfloor.HandlerFunc(st.handle)
	if st.batches {
		h = batchRig{ackfloor.BatchHandlerFunc(st.handleBatch)}
	}
	w := st.r.start(h, withLetters, func(c *Config) {
		c.Concurrency, c.HandleTimeout, c.DrainTimeout, c.MaxAttempts = 1+st.rng.IntN(10), 2*time.Second, 500*time.Millisecond, 4
		c.BatchSize = 1 + st.rng.IntN(20)
		if st.first != nil {
			c.Key = keyOfSequence
		}
	})
	w.working() // it has claimed the consumer: the next one clears that
	return w
}

// handle takes up to a second; what it does then depends on the sequence, and on chance.
func (st *stress) handle(ctx context.Context, m *ackfloor.Message) error {
	st.mu.Lock()
	x, y, out := st.chance.IntN(1000), st.chance.IntN(100), time.Now().Before(st.outage)
	st.mu.Unlock()
	select {
	case <-time.After(time.Duration(y*y) * 100 * time.Microsecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	if out {
		return ackfloor.Pause(time.Second, errWork)
	}
	switch k := m.Sequence % 50; {
	case k == 1:
		return ackfloor.Permanent(errWork)
	case k == 2, x < 30:
		return errWork
	case k == 3:
		panic("bad")
	case k == 4 && x < 500:
		runtime.Goexit()
	case k == 5 && x < 700:
		<-ctx.Done()
		return ctx.Err()
	case k == 6 && x < 700:
		time.Sleep(3 * time.Second) // whatever its context says
		return errWork
	case k == 7 && x < 700:
		return ackfloor.RetryAfter(0, errWork)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.done[m.Sequence]++
	if st.first != nil && st.done[m.Sequence] == 1 && m.Header.Get(deadletter.HeaderReplays) == "" {
		st.first[m.Sequence%7] = append(st.first[m.Sequence%7], m.Sequence)
	}
	return nil
}

func (st *stress) run(workers int) {
	for range workers {
		st.ws = append(st.ws, st.start())
	}
	for range 30 {
		time.Sleep(time.Duration(st.rng.IntN(1500)) * time.Millisecond)
		st.fault()
	}
	st.r.lettersAtMost(-1)
	st.s.WaitInfo(st.t, rigStream, rigConsumer, 30*time.Minute, "all settled", func(i *jetstream.ConsumerInfo) bool {
		return i.AckFloor.Stream == stressMessages && i.NumAckPending == 0
	})
	time.Sleep(5 * time.Minute) // replays, and a bucket that is trusted or given up
	st.idle()
	st.r.s.Events(st.t, 2) // workers that live still
	time.Sleep(5 * time.Minute)
	for _, w := range st.ws {
		st.stop(w)
		if w.err != nil {
			st.t.Errorf("the last stop: %v", w.err)
		}
	}
	st.check()
}

// fault does one thing that goes wrong, or ends what did.
func (st *stress) fault() {
	i := st.rng.IntN(len(st.ws))
	switch x := st.rng.IntN(14); {
	case x < 3:
		st.ws[i].crash()
		st.ws[i] = st.start()
	case x < 6:
		st.stop(st.ws[i])
		st.ws[i] = st.start()
	case x < 8:
		for _, w := range st.ws {
			w.replaying()
		}
		st.s.Stop()
		time.Sleep(time.Duration(st.rng.IntN(3500)) * time.Millisecond)
		st.s.Start()
	case x == 8:
		_ = st.s.JetStream(st.t).DeleteKeyValue(context.Background(), "ackfloor_"+rigStream)
	case x == 9:
		st.r.lettersAtMost(1)
	case x == 10:
		st.r.lettersAtMost(-1)
	case x == 11 && st.pauses:
		st.mu.Lock()
		st.outage = time.Now().Add(5 * time.Second)
		st.mu.Unlock()
	default:
		box := st.r.store()
		for l, err := range box.List(context.Background(), deadletter.Filter{}) {
			if err == nil && st.rng.IntN(3) == 0 {
				_, _ = box.Replay(context.Background(), l)
			}
		}
	}
}

func (st *stress) stop(w *running) {
	_ = w.end()
	if w.took > 8*time.Second {
		st.t.Errorf("a stop took %v: %v", w.took, w.err)
	}
}

// idle checks that nothing is held.
func (st *stress) idle() {
	for i, w := range st.ws {
		if held := w.holds(); held != "" {
			st.t.Errorf("worker %d: %s", i, held)
		}
		if child := w.replays.Load(); child != nil && child.holds() != "" {
			st.t.Errorf("worker %d's replays: %s", i, child.holds())
		}
	}
}

// check looks for messages that were lost, and for letters that are there twice.
func (st *stress) check() {
	letters := map[uint64]int{}
	for _, l := range st.r.own() {
		letters[l.MessageSequence]++
	}
	for seq := uint64(1); seq <= stressMessages+2; seq++ {
		if st.done[seq] == 0 && letters[seq] == 0 || letters[seq] > 1 {
			st.t.Errorf("message %d was handled %d times and has %d letters", seq, st.done[seq], letters[seq])
		}
	}
	for key, order := range st.first {
		if !slices.IsSorted(order) {
			st.t.Errorf("key %d: %v", key, order)
		}
	}
}
