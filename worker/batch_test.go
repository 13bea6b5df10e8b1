package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/testutil"
)

// batchRig lets the rig start a handler of batches.
type batchRig struct{ h ackfloor.BatchHandler }

func (batchRig) Handle(context.Context, *ackfloor.Message) error {
	panic("a batch is not handled one by one")
}

// batchLog records batches.
type batchLog struct {
	mu   sync.Mutex
	all  [][]uint64
	at   []time.Time
	then func(ctx context.Context, b *ackfloor.Batch) error
}

func (l *batchLog) HandleBatch(ctx context.Context, b *ackfloor.Batch) error {
	var seqs []uint64
	for _, m := range b.Messages {
		seqs = append(seqs, m.Sequence)
	}
	l.mu.Lock()
	l.all, l.at = append(l.all, seqs), append(l.at, time.Now())
	l.mu.Unlock()
	if l.then == nil {
		return nil
	}
	return l.then(ctx, b)
}

// times counts how often each sequence was handled.
func (l *batchLog) times() map[uint64]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[uint64]int{}
	for _, b := range l.all {
		for _, seq := range b {
			out[seq]++
		}
	}
	return out
}

func (l *batchLog) sizes() (out []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.all {
		out = append(out, len(b))
	}
	return out
}

func batchesOf(size int) func(*Config) {
	return func(c *Config) {
		c.BatchSize, c.Concurrency, c.BatchLinger, c.MaxAckPending = size, 1, 200*time.Millisecond, 0
	}
}

// Of ten messages one fails and one can never succeed: each has its own fate.
func TestEachOfABatchHasItsFate(t *testing.T) {
	for name, h := range map[string]func(context.Context, *ackfloor.Batch) error{
		"a BatchError": func(_ context.Context, b *ackfloor.Batch) error {
			failed := map[int]error{}
			for i, m := range b.Messages {
				if m.Sequence == 4 && m.Attempt == 1 {
					failed[i] = errWork
				}
				if m.Sequence == 5 {
					failed[i] = ackfloor.Permanent(errWork)
				}
			}
			return &ackfloor.BatchError{Errors: failed}
		},
		"told, then a plain error": func(_ context.Context, b *ackfloor.Batch) error {
			for i, m := range b.Messages {
				if m.Sequence == 5 {
					b.Fail(i, ackfloor.Permanent(errWork))
				} else if m.Sequence != 4 || m.Attempt > 1 {
					b.Done(i)
				}
			}
			return errWork
		},
		"told, then a panic": func(_ context.Context, b *ackfloor.Batch) error {
			for i, m := range b.Messages {
				if m.Sequence == 5 {
					b.Fail(i, ackfloor.Permanent(errWork))
				} else if m.Sequence != 4 || m.Attempt > 1 {
					b.Done(i)
				}
			}
			panic("no")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, testutil.Bubble(t), 10)
				l := &batchLog{then: h}
				w := r.start(batchRig{l}, withLetters, batchesOf(10))
				letters := r.awaitLetters(1, 5*time.Second)
				r.floor(10, 5*time.Second)
				w.ok(w.end())
				for seq, n := range l.times() {
					if want := map[bool]int{true: 2, false: 1}[seq == 4]; n != want {
						t.Errorf("message %d was handled %d times", seq, n)
					}
				}
				if c := w.Status().Counts; c.Acked != 9 || c.Retried != 1 || c.DeadLettered != 1 || letters[0].MessageSequence != 5 || letters[0].Reason != deadletter.ReasonPermanent {
					t.Errorf("%+v, the letter says %+v", c, letters[0])
				}
			})
		})
	}
}

// How large batches are: full where there are enough messages, by number or by bytes, and what has come where the first has waited.
func TestSizesOfBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 250)
		l := &batchLog{}
		w := r.start(batchRig{l}, batchesOf(100))
		r.floor(250, 5*time.Second)
		if got := l.sizes(); !slices.Equal(got, []int{100, 100, 50}) {
			t.Errorf("batches of %v", got)
		}
		if d := l.at[2].Sub(l.at[1]); d < 150*time.Millisecond || d > 300*time.Millisecond {
			t.Errorf("the last one waited %v", d)
		}
		time.Sleep(time.Minute)
		began := time.Now()
		s.Events(t, 1)
		r.floor(251, 5*time.Second)
		if d := l.at[3].Sub(began); d < 200*time.Millisecond || d > 230*time.Millisecond {
			t.Errorf("a single message waited %v", d)
		}
		w.ok(w.end())
		for range 10 {
			put(t, s, "events.x", strings.Repeat("x", 400), nil)
		}
		put(t, s, "events.x", strings.Repeat("x", 3000), nil)
		put(t, s, "events.x", "", nil)
		l = &batchLog{}
		w = r.start(batchRig{l}, batchesOf(100), func(c *Config) { c.BatchBytes = 1024 })
		r.floor(263, 5*time.Second)
		if got := l.sizes(); !slices.Equal(got, []int{2, 2, 2, 2, 2, 1, 1}) {
			t.Errorf("batches of %v", got)
		}
		w.ok(w.end())
	})
}

// A batch fills for longer than the lease, and is handled for longer too: nothing is delivered twice.
func TestLeasesWhileABatchFills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 3)
		l := &batchLog{then: func(context.Context, *ackfloor.Batch) error { time.Sleep(9 * time.Second); return nil }}
		w := r.start(batchRig{l}, batchesOf(5), func(c *Config) { c.BatchLinger = 20 * time.Second })
		time.Sleep(19 * time.Second)
		s.Events(t, 2)
		i := r.floor(5, 12*time.Second)
		if i.Delivered.Consumer != 5 || !slices.Equal(l.sizes(), []int{5}) {
			t.Errorf("%d deliveries, batches of %v", i.Delivered.Consumer, l.sizes())
		}
		w.ok(w.end())
	})
}

// One message spoils each batch that it is in: the others get through, it does not.
func TestWhatSpoilsABatchIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 500)
		l := &batchLog{then: func(_ context.Context, b *ackfloor.Batch) error {
			if slices.ContainsFunc(b.Messages, func(m *ackfloor.Message) bool { return m.Sequence == 77 }) {
				return errWork
			}
			return nil
		}}
		w := r.start(batchRig{l}, withLetters, batchesOf(100), func(c *Config) { c.MaxAttempts = 8 })
		letters := r.awaitLetters(1, time.Minute)
		r.floor(500, 5*time.Second)
		w.ok(w.end())
		if all := r.letters(); len(all) != 1 || letters[0].MessageSequence != 77 || w.Status().Counts.Acked != 499 {
			t.Errorf("%d letters, the first of message %d", len(all), letters[0].MessageSequence)
		}
		if n := r.logged("will be tried again"); n > 200 {
			t.Errorf("%d lines", n)
		}
	})
}

// A stop while a batch fills handles it at once; one that is handled for longer than the grace goes back.
func TestStopWithBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 7)
		l := &batchLog{}
		w := r.start(batchRig{l}, batchesOf(100), func(c *Config) { c.BatchLinger = time.Hour })
		time.Sleep(5 * time.Second)
		w.ok(w.end())
		if i := r.floor(7, time.Second); w.took > 2*time.Second || i.Delivered.Consumer != 7 {
			t.Errorf("it took %v, %d deliveries", w.took, i.Delivered.Consumer)
		}
		r.s.Events(t, 30)
		l = &batchLog{then: func(ctx context.Context, b *ackfloor.Batch) error {
			b.Done(0)
			<-ctx.Done()
			return ctx.Err()
		}}
		w = r.start(batchRig{l}, withLetters, batchesOf(10), func(c *Config) { c.DrainTimeout, c.Concurrency = time.Second, 2 })
		time.Sleep(time.Second)
		var broken *DrainError
		if err := w.end(); !errors.As(err, &broken) || broken.Interrupted != 18 {
			t.Errorf("Run returned %v", err)
		}
		l = &batchLog{then: func(_ context.Context, b *ackfloor.Batch) error {
			for _, m := range b.Messages {
				if m.Attempt != 1 {
					t.Errorf("message %d is on attempt %d", m.Sequence, m.Attempt)
				}
			}
			return nil
		}}
		w = r.start(batchRig{l}, withLetters, batchesOf(10))
		r.floor(37, 5*time.Second)
		w.ok(w.end())
		if n := len(l.times()); n != 28 {
			t.Errorf("%d came again", n)
		}
	})
}

// A batch that takes longer than the handle timeout fails as a whole; one line says so.
func TestBatchTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 20)
		first := true
		l := &batchLog{then: func(ctx context.Context, b *ackfloor.Batch) error {
			if first {
				first = false
				<-ctx.Done()
				return fmt.Errorf("insert: %w", context.Cause(ctx))
			}
			return nil
		}}
		w := r.start(batchRig{l}, withLetters, batchesOf(20), func(c *Config) { c.HandleTimeout, c.DrainTimeout = time.Second, time.Second })
		r.floor(20, 20*time.Second)
		w.ok(w.end())
		if c := w.Status().Counts; c.Acked != 20 || c.Retried != 20 {
			t.Errorf("%+v", c)
		}
		if n := r.logged("handle timeout has passed"); n > 1 {
			t.Errorf("%d lines", n)
		}
	})
}

// A handler of batches asks for a pause: what it had stays held, one message is tried, and batches go on.
func TestBatchesPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 50)
		until := time.Now().Add(10 * time.Second)
		l := &batchLog{then: func(context.Context, *ackfloor.Batch) error {
			if time.Now().Before(until) {
				return ackfloor.Pause(2*time.Second, errWork)
			}
			return nil
		}}
		w := r.start(batchRig{l}, withLetters, batchesOf(10))
		i := r.floor(50, time.Minute)
		if c := w.Status().Counts; c.Retried != 0 || c.Acked != 50 || i.Delivered.Consumer != 50 || len(l.all) > 25 {
			t.Errorf("%+v, %d deliveries, batches of %v", c, i.Delivered.Consumer, l.sizes())
		}
		w.ok(w.end())
	})
}

// What can't be combined with batches is refused by name, before a connection is needed.
func TestBatchRefusals(t *testing.T) {
	cfg := Config{Stream: "S", Consumer: "C", Key: ackfloor.KeyBySubject(1), Gate: slowGate(1)}
	_, err := NewBatch(nil, cfg, nil)
	var wrong *ConfigError
	if !errors.As(err, &wrong) || len(wrong.Problems) != 3 {
		t.Fatal(err)
	}
	cfg = Config{Stream: "S", Consumer: "C", BatchSize: -1, BatchBytes: 5, BatchLinger: -1}
	if _, err := NewBatch(nil, cfg, ackfloor.BatchHandlerFunc(func(context.Context, *ackfloor.Batch) error { return nil })); !errors.As(err, &wrong) || len(wrong.Problems) != 4 {
		t.Fatal(err)
	}
}
