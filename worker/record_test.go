package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/testutil"
)

// The bucket is written on failures only, and tells of a failure what the next worker has to know.
func TestRecordsAreWrittenOnFailuresOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1000)
		w := r.start(testutil.ByData(map[string]ackfloor.Handler{"7": testutil.Fail(2, errWork)}, testutil.Succeed()), withLetters)
		r.floor(1000, 10*time.Second)
		w.ok(w.end())
		info, err := s.JetStream(t).Stream(context.Background(), "KV_ackfloor_"+rigStream)
		must(t, err)
		if st := info.CachedInfo().State; st.LastSeq != 2 || st.Msgs != 1 {
			t.Errorf("%d writes, %d records", st.LastSeq, st.Msgs)
		}
	})
}

// Without the bucket attempts go on: as far as they are known, then as deliveries; nothing is tried for ever.
func TestAttemptsWithoutTheBucket(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, s *testutil.S){
		"deleted": func(t *testing.T, s *testutil.S) {
			must(t, s.JetStream(t).DeleteKeyValue(context.Background(), "ackfloor_"+rigStream))
		},
		"full": func(t *testing.T, s *testutil.S) {
			js := s.JetStream(t)
			st, err := js.Stream(context.Background(), "KV_ackfloor_"+rigStream)
			must(t, err)
			cfg := st.CachedInfo().Config
			cfg.MaxBytes = 1
			_, err = js.UpdateStream(context.Background(), cfg)
			must(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 3)
				begin := make(chan struct{})
				w := r.start(testutil.ByData(map[string]ackfloor.Handler{"1": ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
					<-begin
					return errWork
				})}, testutil.Succeed()), withLetters, func(c *Config) { c.RetrySchedule = "10s" })
				w.working()
				lose(t, s)
				close(begin)
				letters := r.awaitLetters(1, 5*time.Minute)
				r.floor(3, 5*time.Second)
				if n := r.calls.Count(2); n < 5 || n > 15 || letters[0].Reason != deadletter.ReasonExhausted {
					t.Errorf("%d calls, the letter says %+v", n, letters[0])
				}
				if r.logged("a record could not be written") == 0 {
					t.Error("nothing says so")
				}
				w.ok(w.end())
			})
		})
	}
}

// While the bucket can't be read a message is not given up for its deliveries, which may be returns.
func TestReturnsAreNoAttemptsWhileRecordsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		short := func(c *Config) { c.DrainTimeout = 100 * time.Millisecond }
		for range 8 {
			w := r.start(testutil.Sleep(time.Minute), withLetters, short)
			time.Sleep(3 * time.Second)
			_ = w.end()
		}
		calls := 0
		w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			if calls++; m.Attempt != 1 {
				t.Errorf("call %d is attempt %d", calls, m.Attempt)
			}
			if calls == 1 {
				must(t, s.JetStream(t).DeleteKeyValue(context.Background(), "ackfloor_"+rigStream))
				return errWork
			}
			return nil
		}), withLetters)
		r.floor(1, 30*time.Second)
		w.ok(w.end())
		if n := len(r.letters()); n != 0 {
			t.Errorf("%d letters", n)
		}
	})
}

// The bucket is deleted while a message waits for its retry, and nothing else fails: what can't be read is not waited for, for ever.
func TestBucketIsGoneBehindAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		w := r.start(testutil.Fail(-1, errWork), withLetters, func(c *Config) { c.RetrySchedule = "5s" })
		r.calls.Wait(t, 1, time.Second)
		time.Sleep(time.Second)
		w.ok(w.end())
		w = r.start(testutil.Fail(-1, errWork), withLetters, func(c *Config) { c.RetrySchedule = "5s" })
		w.working() // and knows nothing of the message yet
		must(t, s.JetStream(t).DeleteKeyValue(context.Background(), "ackfloor_"+rigStream))
		r.awaitLetters(1, 5*time.Minute)
		if r.logged("a record could not be written") == 0 {
			t.Error("nothing says so")
		}
		w.ok(w.end())
	})
}
