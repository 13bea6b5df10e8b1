package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// A retry that falls due while no other message waits, before its own linger is over, is handled; its batch was full when the alarm had gone off.
func TestBatchRetryIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		s.Events(t, 0)
		first := true
		l := &batchLog{then: func(_ context.Context, b *ackfloor.Batch) error {
			if first {
				first = false
				time.Sleep(30 * time.Millisecond)
				b.Fail(len(b.Messages)-1, ackfloor.RetryAfter(time.Millisecond, errWork))
			}
			return nil
		}}
		w := r.start(batchRig{l}, withLetters, batchesOf(3), func(c *Config) { c.BatchLinger = 100 * time.Millisecond })
		w.working()
		time.Sleep(time.Second)
		s.Events(t, 1)
		time.Sleep(90 * time.Millisecond)
		s.Events(t, 2)
		defer func() {
			for i := range l.all {
				t.Log(l.all[i], l.at[i].Format("05.000"), r.logged("will be tried again"))
			}
			if d := l.at[1].Sub(l.at[0]); d > 300*time.Millisecond {
				t.Errorf("the retry came after %v", d)
			}
		}()
		r.floor(3, time.Minute)
		w.ok(w.end())
	})
}

// A typed nil *BatchError is no failure of the process.
func TestTypedNilBatchError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 5)
		l := &batchLog{then: func(context.Context, *ackfloor.Batch) error {
			var e *ackfloor.BatchError
			return e
		}}
		w := r.start(batchRig{l}, batchesOf(5), withLetters)
		time.Sleep(time.Minute)
		w.ok(w.end())
	})
}

type asPanics struct{}

func (*asPanics) Error() string { return "x" }
func (*asPanics) As(any) bool   { panic("As") }

// An error whose As method panics.
func TestBatchErrorWithPanickingAs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 5)
		l := &batchLog{then: func(context.Context, *ackfloor.Batch) error { return &asPanics{} }}
		w := r.start(batchRig{l}, batchesOf(5), withLetters)
		time.Sleep(time.Minute)
		w.ok(w.end())
	})
}

// A handler that sorts b.Messages, for its insert, speaks of the messages as they stand then.
func TestBatchSorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 5)
		l := &batchLog{}
		l.then = func(_ context.Context, b *ackfloor.Batch) error {
			slices.Reverse(b.Messages)
			for i, m := range b.Messages {
				if m.Sequence == 1 {
					b.Fail(i, ackfloor.Permanent(errWork))
				}
			}
			return nil
		}
		w := r.start(batchRig{l}, batchesOf(5), withLetters)
		letters := r.awaitLetters(1, 5*time.Second)
		r.floor(5, 5*time.Second)
		w.ok(w.end())
		if letters[0].MessageSequence != 1 {
			t.Errorf("message 1 failed, the letter is of message %d", letters[0].MessageSequence)
		}
	})
}

// A handler that shortens b.Messages (or filters it in place) must not end the process.
func TestBatchShortened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 5)
		l := &batchLog{then: func(_ context.Context, b *ackfloor.Batch) error { b.Messages = b.Messages[:2]; return nil }}
		w := r.start(batchRig{l}, batchesOf(5), withLetters)
		time.Sleep(time.Minute)
		w.ok(w.end())
	})
}

// A stop that interrupts a batch is nobody's failure.
func TestInterruptedBatchIsNotFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 3000)
		l := &batchLog{then: func(ctx context.Context, _ *ackfloor.Batch) error { <-ctx.Done(); return ctx.Err() }}
		w := r.start(batchRig{l}, batchesOf(3000), withLetters, func(c *Config) { c.DrainTimeout = 100 * time.Millisecond; c.MaxAckPending = 3000 })
		time.Sleep(3 * time.Second)
		err := w.end()
		if c := w.Status().Counts; c.Retried != 0 || c.Returned != 3000 {
			t.Errorf("%v: %+v", err, c)
		}
	})
}

// With records that answer slowly a batch of messages that were delivered before is handled all the same: its time does not pass before.
func TestBatchAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), -1)
		r.s.Events(t, 0)
		r.s.Consumer(t, rigStream, wanted(r.cfg))
		puts(t, r.s, 90, "x")
		for _, m := range r.fetch(rigStream, rigConsumer, 90) {
			must(t, m.NakWithDelay(5*time.Second))
		}
		l := &batchLog{}
		var late atomic.Int32
		l.then = func(ctx context.Context, _ *ackfloor.Batch) error {
			if ctx.Err() != nil {
				late.Add(1)
			}
			return ctx.Err()
		}
		w := r.start(batchRig{l}, withLetters, batchesOf(100), func(c *Config) { c.HandleTimeout, c.MaxAckPending = 2*time.Second, 100 })
		w.flaky()
		kv := &slowKV{flakyKV: flakyKV{KeyValue: w.records.kv}}
		w.records.kv = kv
		kv.getDelay.Store(int64(200 * time.Millisecond))
		r.floor(90, time.Minute)
		w.ok(w.end())
		if c := w.Status().Counts; late.Load() != 0 || c.Retried+c.DeadLettered != 0 {
			t.Errorf("%d batches began behind their time, %+v", late.Load(), c)
		}
	})
}

func (f *slowKV) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	time.Sleep(time.Duration(f.getDelay.Load()))
	return f.flakyKV.Get(ctx, key)
}

type slowKV struct {
	flakyKV
	getDelay atomic.Int64
}

// No deliveries are lost between the connection and a reader of large batches.
func TestLargeBatchesLoseNothing(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 60000)
	r := newRig(t, s, -1)
	l := &batchLog{}
	w := r.start(batchRig{l}, batchesOf(20000), func(c *Config) { c.BatchLinger = time.Second })
	r.floor(60000, 60*time.Second)
	w.ok(w.end())
	if c := w.Status().Counts; c.Redelivered != 0 {
		t.Errorf("%+v, sizes %v", c, l.sizes())
	}
	t.Log(l.sizes(), cap(w.reader.in))
}

// Behind an end of waiting for a missing one, the next missing one of the key is waited for again.
func TestMissingIsWaitedForEachTime(t *testing.T) {
	l := newLanes()
	r := &Runner{buf: newBuffer(4, time.Second)}
	r.ackWait.Store(int64(time.Second))
	r.buf.lanes = l
	r.log = zap.NewNop()
	d := func(seq uint64) *delivery { x := &delivery{}; x.msg.Sequence = seq; return x }
	one, two, three := d(1), d(2), d(3)
	l.join(one, "k")
	l.join(two, "k")
	l.join(three, "k")
	l.leave(one, false) // its lease is lost: the others wait
	r.findMissing(0)
	if l.byKey["k"].head != 0 {
		t.Fatal("it did not wait")
	}
	l.noneMissing(1) // a reconnect: what is under way is here
	r.pullAlarm = newAlarm()
	r.openLanes()
	r.findMissing(time.Second)
	if l.byKey["k"].head != 2 {
		t.Fatal("it did not go on")
	}
	l.leave(two, false) // an hour later
	r.findMissing(time.Hour)
	if h := l.byKey["k"].head; h != 0 {
		t.Errorf("message %d began while 2 was missing, which nobody had waited for", h)
	}
}

// A retry of a handler that overran its time stays under lease.
func TestRetryBehindATimeoutKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		keyed(t, s, 1, 1)
		r := newRig(t, s, -1)
		var first atomic.Bool
		h := ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			if first.CompareAndSwap(false, true) {
				time.Sleep(1800 * time.Millisecond)
				return errWork
			}
			return nil
		})
		w := r.start(h, inOrder, func(c *Config) { c.HandleTimeout, c.RetrySchedule = time.Second, "5s" })
		i := r.floor(1, time.Minute)
		if c := w.Status().Counts; c.LeasesLost != 0 || i.Delivered.Consumer != 1 {
			t.Errorf("%+v, %d deliveries", c, i.Delivered.Consumer)
		}
		w.ok(w.end())
	})
}

// A batch does not wait for what can't come.
func TestBatchWithSmallMaxAckPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 30)
		l := &batchLog{}
		began := time.Now()
		w := r.start(batchRig{l}, batchesOf(100), func(c *Config) { c.MaxAckPending, c.BatchLinger = 10, 20*time.Second })
		r.floor(30, 3*time.Minute)
		if d := time.Since(began); d > 30*time.Second {
			t.Errorf("it took %v: %v", d, l.sizes())
		}
		w.ok(w.end())
	})
}

// Batches stay batches beside a replay, and no more handlers run than Concurrency.
func TestBatchesBesideAReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		var mode atomic.Int32
		var now, most atomic.Int32
		l := &batchLog{then: func(_ context.Context, b *ackfloor.Batch) error {
			if mode.Load() == 0 {
				return ackfloor.Permanent(errWork)
			}
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			if b.Messages[0].Header.Get("Ackfloor-Replays") != "" || b.Messages[0].Sequence == 1 {
				time.Sleep(5 * time.Second)
			} else {
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		}}
		w := r.start(batchRig{l}, batchesOf(100), withLetters, func(c *Config) { c.HandleTimeout = 20 * time.Second })
		w.replaying()
		letters := r.awaitLetters(1, 10*time.Second)
		mode.Store(1)
		r.replay(letters...)
		time.Sleep(time.Second)
		s.Events(t, 500)
		time.Sleep(3 * time.Second)
		t.Log(l.sizes())
		r.floor(501, 5*time.Minute)
		w.ok(w.end())
		if most.Load() > 1 {
			t.Errorf("%d handlers ran at once, sizes %v", most.Load(), len(l.sizes()))
		}
		if len(l.sizes()) > 20 {
			t.Errorf("%d batches for 501 messages", len(l.sizes()))
		}
	})
}

// A batch behind a pause is in stream order.
func TestBatchOrderBehindAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 6)
		first := true
		l := &batchLog{then: func(context.Context, *ackfloor.Batch) error {
			if first {
				first = false
				return ackfloor.Pause(time.Second, errWork)
			}
			return nil
		}}
		w := r.start(batchRig{l}, batchesOf(6))
		r.floor(6, time.Minute)
		w.ok(w.end())
		var flat []uint64
		for _, b := range l.all[1:] {
			flat = append(flat, b...)
		}
		if !slices.IsSorted(flat) {
			t.Errorf("%v, %d pauses", l.all, w.Status().Counts.Pauses)
		}
	})
}

// An outage in which leases are lost is no failure of the other messages of a batch.
func TestBatchThroughALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		s.Events(t, 0)
		var mu sync.Mutex
		attempts := map[uint64]int{}
		l := &batchLog{then: func(ctx context.Context, b *ackfloor.Batch) error {
			mu.Lock()
			for _, m := range b.Messages {
				attempts[m.Sequence] = max(attempts[m.Sequence], m.Attempt)
			}
			mu.Unlock()
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(4 * time.Second):
				return nil
			}
		}}
		w := r.start(batchRig{l}, batchesOf(10), withLetters, func(c *Config) { c.HandleTimeout, c.BatchLinger = time.Minute, time.Second })
		w.replaying()
		for range 10 {
			s.Events(t, 1)
			time.Sleep(70 * time.Millisecond)
		}
		time.Sleep(500 * time.Millisecond)
		s.Stop()
		time.Sleep(4 * time.Second)
		s.Start()
		r.floor(10, time.Minute)
		w.ok(w.end())
		if c := w.Status().Counts; c.Retried != 0 || slices.Max(slices.Collect(maps.Values(attempts))) > 1 {
			t.Errorf("%+v, attempts %v", c, attempts)
		}
	})
}

// A handler of a batch that hangs is told of in few lines.
func TestHungBatchLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1000)
		release := make(chan struct{})
		l := &batchLog{then: func(context.Context, *ackfloor.Batch) error { <-release; return errWork }}
		w := r.start(batchRig{l}, batchesOf(1000), func(c *Config) { c.HandleTimeout, c.DrainTimeout = time.Second, time.Second })
		time.Sleep(10 * time.Second)
		err := w.end()
		t.Log(errors.Unwrap(err))
		if n := r.logged("handle timeout has passed"); n > 10 {
			t.Errorf("%d lines of the timeout", n)
		}
		if n := r.logged("ignores that its context"); n > 10 {
			t.Errorf("%d lines of the handler", n)
		}
		close(release)
		time.Sleep(time.Second)
	})
}

// Key ends its goroutine: the Runner ends with an error, and Run returns.
func TestKeyGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 3)
		w := r.start(testutil.Succeed(), func(c *Config) {
			c.Key = func(*ackfloor.Message) string { goexit(); return "" }
		})
		time.Sleep(5 * time.Second)
		w.stop()
		select {
		case <-w.done:
			t.Log(w.err)
		case <-time.After(time.Minute):
			t.Error("Run does not return")
			w.reader.over <- struct{}{}
		}
	})
}

func goexit() { _ = testutil.Goexit().Handle(context.Background(), &ackfloor.Message{}) }

var _ = fmt.Sprint
