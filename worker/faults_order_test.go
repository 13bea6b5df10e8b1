package worker

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// Faults under a worker that keeps the order of keys, again and again while 300 messages of ten keys are handled, a tenth of them with a failure: each key's first successes are in
// order, never two of one at once, and each message is handled.
func TestOrderThroughFaults(t *testing.T) {
	for name, fault := range map[string]func(t *testing.T, s *testutil.S, w *running){
		"restarts of the server": func(_ *testing.T, s *testutil.S, _ *running) { s.Restart() },
		"outages": func(_ *testing.T, s *testutil.S, _ *running) {
			s.Stop()
			time.Sleep(700 * time.Millisecond)
			s.Start()
		},
		"kicks": func(t *testing.T, s *testutil.S, w *running) {
			if id, err := w.nc.GetClientID(); err == nil {
				must(t, s.Server().DisconnectClientByID(id))
			}
		},
		"pauses of the consumer": func(t *testing.T, s *testutil.S, _ *running) {
			_, err := s.JetStream(t).PauseConsumer(t.Context(), rigStream, rigConsumer, time.Now().Add(300*time.Millisecond))
			must(t, err)
		},
		"changes of max_ack_pending": func(t *testing.T, s *testutil.S, w *running) {
			cfg := s.Info(t, rigStream, rigConsumer).Config
			cfg.MaxAckPending = 30 + 500*(cfg.MaxAckPending%2) + 1
			s.Consumer(t, rigStream, cfg)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				keyed(t, s, 300, 10)
				r := newRig(t, s, -1)
				time.Sleep(3 * time.Second) // older than ack_wait
				w := r.startOn(connectLikeWorker(t, s), ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
					time.Sleep(time.Duration(10+m.Sequence%7*20) * time.Millisecond)
					if m.Sequence%10 == 3 && m.Attempt == 1 {
						return errWork
					}
					return nil
				}), inOrder, withLetters, func(c *Config) { c.RetrySchedule = "300ms" })
				w.replaying()
				for range 4 {
					time.Sleep(400 * time.Millisecond)
					fault(t, s, w)
				}
				r.floor(300, time.Minute)
				r.ordered(300)
				if n := len(r.calls.Calls()); n != 330 {
					t.Errorf("%d calls, want 330", n)
				}
				w.ok(w.end())
			})
		})
	}
}

// Messages of a key are deleted while others of it wait behind them: the key goes on with those that are there.
func TestKeyWhoseMessagesAreDeleted(t *testing.T) {
	for _, failing := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := testutil.Bubble(t)
			keyed(t, s, 40, 2)
			r := newRig(t, s, -1)
			w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
				time.Sleep(300 * time.Millisecond)
				if failing && m.Sequence < 5 && m.Attempt < 3 {
					return errWork
				}
				return nil
			}), inOrder, withLetters)
			r.calls.WaitStarted(t, 2, time.Second)
			stream, err := s.JetStream(t).Stream(t.Context(), rigStream)
			must(t, err)
			for seq := uint64(1); seq <= 20; seq++ {
				must(t, stream.DeleteMsg(t.Context(), seq))
			}
			r.floor(40, 30*time.Second)
			publishKeyed(t, s, 10, 2)
			r.floor(50, 30*time.Second)
			for seq := uint64(21); seq <= 50; seq++ {
				if r.calls.Count(seq) != 1 {
					t.Errorf("message %d was handled %d times", seq, r.calls.Count(seq))
				}
			}
			w.ok(w.end())
			if held := w.holds(); held != "" {
				t.Errorf("at the end it has %s", held)
			}
		})
	}
}

// Keys of any kind: none, one for all, one of a hundred kilobytes, one for each message. All is handled, and one key is one after another.
func TestKeysOfAnyKind(t *testing.T) {
	for name, key := range map[string]func(*ackfloor.Message) string{
		"none": func(*ackfloor.Message) string { return "" },
		"one":  func(*ackfloor.Message) string { return "k" },
		"large": func(m *ackfloor.Message) string {
			return strings.Repeat("k", 100<<10) + strconv.FormatUint(m.Sequence%3, 10)
		},
		"each":       func(m *ackfloor.Message) string { return strconv.FormatUint(m.Sequence, 10) },
		"no text":    func(m *ackfloor.Message) string { return "\xff\x00" + string(rune(m.Sequence%2)) },
		"it changes": func(m *ackfloor.Message) string { return strconv.Itoa(m.Attempt) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 60)
				w := r.start(testutil.Fail(1, errWork), withLetters, func(c *Config) { c.Key, c.Concurrency, c.RetrySchedule = key, 8, "20ms" })
				r.floor(60, 20*time.Second)
				w.ok(w.end())
				if n := len(r.calls.Calls()); n != 120 {
					t.Errorf("%d calls, want 120", n)
				}
				if name == "one" {
					if first := r.calls.Sequences(); r.calls.MaxConcurrent() != 1 || !slices.IsSorted(first) {
						t.Errorf("%d at once, in the order %v", r.calls.MaxConcurrent(), head(first))
					}
				}
			})
		})
	}
}

// What a handler of batches says of messages that it does not have is no fault of the others, and a batch in which all fail differently gives each its own fate.
func TestOddBatchErrors(t *testing.T) {
	for name, odd := range map[string]map[int]error{
		"an index below":      {-1: errWork},
		"an index beyond":     {100: ackfloor.Permanent(errWork)},
		"nil for an error":    {0: nil, 3: nil},
		"nothing":             nil,
		"a typed nil":         {1: (*brokenError)(nil)},
		"below, beyond, good": {-5: errWork, 2: errWork, 11: errWork},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, testutil.Bubble(t), 10)
				l := &batchLog{}
				first := true
				l.then = func(context.Context, *ackfloor.Batch) error {
					if first {
						first = false
						return &ackfloor.BatchError{Errors: odd}
					}
					return nil
				}
				w := r.start(batchRig{l}, withLetters, batchesOf(10))
				r.floor(10, 30*time.Second)
				w.ok(w.end())
				if n := len(l.times()); n != 10 || len(r.letters()) != 0 {
					t.Errorf("%d messages, %d letters", n, len(r.letters()))
				}
			})
		})
	}
}

// Batches through faults of the server: no message is lost, and none is in two batches that succeed.
func TestBatchesThroughFaults(t *testing.T) {
	for name, fault := range map[string]func(t *testing.T, s *testutil.S, stream jetstream.Stream){
		"restarts": func(_ *testing.T, s *testutil.S, _ jetstream.Stream) { s.Restart() },
		"outages": func(_ *testing.T, s *testutil.S, _ jetstream.Stream) {
			s.Stop()
			time.Sleep(time.Second)
			s.Start()
		},
		"deletions": func(t *testing.T, _ *testutil.S, stream jetstream.Stream) {
			info, err := stream.Info(t.Context())
			must(t, err)
			must(t, stream.DeleteMsg(t.Context(), info.State.FirstSeq))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 400)
				time.Sleep(3 * time.Second)
				stream, err := s.JetStream(t).Stream(t.Context(), rigStream)
				must(t, err)
				l := &batchLog{then: func(context.Context, *ackfloor.Batch) error { time.Sleep(300 * time.Millisecond); return nil }}
				w := r.startOn(connectLikeWorker(t, s), batchRig{l}, withLetters, batchesOf(20), func(c *Config) { c.Concurrency = 2 })
				w.replaying()
				for range 5 {
					time.Sleep(450 * time.Millisecond)
					fault(t, s, stream)
				}
				r.floor(400, 30*time.Second)
				w.ok(w.end())
				for seq, n := range l.times() {
					if n != 1 {
						t.Errorf("message %d was in %d batches", seq, n)
					}
				}
				if n := len(l.times()); n < 395 {
					t.Errorf("%d of 400 were handled", n)
				}
			})
		})
	}
}
