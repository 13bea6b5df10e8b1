package worker

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/internal/kvbucket"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// A record counts for its message only: not for one of the same sequence that was published at another time, nor for a consumer made at another time.
func TestRecordsOfOthersAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		ctx := context.Background()
		kv, err := s.JetStream(t).CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "records"})
		must(t, err)
		c := clock{time.Now()}
		rs := &records{kv: kv, consumer: "S.D", born: 7}
		must(t, rs.write(ctx, c, 3, &record{Published: 5, Consumer: 7, Failures: 2}))
		for name, tt := range map[string]struct {
			published, born int64
			failures        int
		}{
			"the same":         {5, 7, 2},
			"another message":  {6, 7, 0},
			"another consumer": {5, 8, 0},
		} {
			rs.born = tt.born
			if rec, can := rs.read(ctx, c, 3, tt.published); rec.Failures != tt.failures || can != recordRead || rec.Published != tt.published || rec.Consumer != tt.born {
				t.Errorf("%s: %+v, %v", name, rec, can)
			}
		}
		flaky := &flakyKV{KeyValue: kv}
		rs.kv = flaky
		flaky.failGets.Store(1)
		if rec, can := rs.read(ctx, c, 3, 5); can != recordLater || rec.Failures != 0 {
			t.Errorf("a read that failed: %+v, %v", rec, can)
		}
		flaky.failPuts.Store(1)
		if rs.write(ctx, c, 3, &record{}) == nil || rs.broken.Load() == 0 {
			t.Error("a write that failed is no failure")
		}
		time.Sleep(recordAgain)
		if err := rs.write(ctx, c, 3, &record{}); err != nil || rs.broken.Load() != 0 {
			t.Errorf("behind a write that succeeded the bucket is distrusted still: %v", err)
		}
	})
}

// The names of any two consumers, and of any stream and consumer, make different keys.
func TestKeysOfRecordsDiffer(t *testing.T) {
	names := []string{"größe", "6772c3b6c39f65", "a.b", "612e62", "=6772", "x=y", "x", "X", "x_y", "x-y", "@"}
	var keys []string
	for _, n := range names {
		keys = append(keys, kvbucket.Token(n))
	}
	slices.Sort(keys)
	if n := len(slices.Compact(slices.Clone(keys))); n != len(names) {
		t.Errorf("%d names make %d keys: %v", len(names), n, keys)
	}
}

// Two streams may share a bucket, with consumers of one name.
func TestTwoStreamsShareABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		s.Stream(t, jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other.>"}})
		time.Sleep(time.Second)
		put(t, s, "other.x", "x", nil)
		shared := func(c *Config) { c.Records, c.MaxAttempts = "ackfloor", 3 }
		a := r.start(testutil.Fail(-1, errWork), withLetters, shared)
		b := r.start(testutil.Fail(-1, errWork), withLetters, shared, func(c *Config) { c.Stream, c.DeadLetter = "OTHER", "OTHER_DLQ" })
		time.Sleep(time.Minute)
		a.ok(a.end())
		b.ok(b.end())
		if n := len(r.calls.Calls()); n != 6 || a.Status().Counts.DeadLettered != 1 || b.Status().Counts.DeadLettered != 1 {
			t.Errorf("two messages, three attempts each: %d calls; counted %+v and %+v", n, a.Status().Counts, b.Status().Counts)
		}
	})
}

// Replays have records of their own, though their sequences are those of messages: neither takes the other's attempts.
func TestReplaysHaveRecordsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			if m.Sequence == 1 && r.calls.Count(1) == 1 {
				return ackfloor.Permanent(errWork)
			}
			return errWork
		}), withLetters, func(c *Config) { c.RetrySchedule = "1s" })
		l := r.awaitLetters(1, 10*time.Second)[0]
		w.replaying()
		puts(t, s, 1, "fails beside it")
		time.Sleep(500 * time.Millisecond)
		r.replay(l) // has sequence 2 in its stream
		time.Sleep(time.Minute)
		w.ok(w.end())
		letters := r.letters()
		if len(letters) != 2 || r.calls.Count(1) != 6 || r.calls.Count(2) != 5 {
			t.Fatalf("%d letters, calls %d and %d", len(letters), r.calls.Count(1), r.calls.Count(2))
		}
		for _, l := range letters {
			if l.Attempts != 5 || l.Reason != deadletter.ReasonExhausted {
				t.Errorf("the letter says %+v", l)
			}
		}
	})
}

// With BIND=existing no bucket is made, and it says what follows.
func TestBindExistingMakesNoBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 3)
		s.Consumer(t, rigStream, wanted(r.cfg))
		r.lettersAtMost(-1)
		w := r.start(testutil.Succeed(), withLetters, func(c *Config) { c.Bind = BindExisting })
		r.floor(3, 5*time.Second)
		w.ok(w.end())
		if _, err := s.JetStream(t).Stream(context.Background(), "KV_ackfloor_"+rigStream); err == nil || r.logged("no bucket for records") != 1 {
			t.Errorf("looking for it: %v; said %d times", err, r.logged("no bucket for records"))
		}
	})
}

// A hiccup of the bucket that is long over is forgotten: a message that is returned often afterwards is charged with no attempt.
func TestBucketIsTrustedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		for range 6 {
			w := r.start(testutil.Sleep(time.Minute), withLetters, func(c *Config) { c.DrainTimeout = 100 * time.Millisecond })
			time.Sleep(3 * time.Second)
			_ = w.end()
		}
		held := r.fetch(rigStream, rigConsumer, 1)[0] // another worker's, meanwhile
		var kv *flakyKV
		n := len(r.calls.Calls())
		w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			if string(m.Data) == "hiccup" && r.calls.Count(m.Sequence) == 1 {
				kv.failPuts.Store(1)
				return errWork
			}
			return nil
		}), withLetters)
		kv = w.flaky()
		puts(t, s, 1, "hiccup")
		for range 200 {
			time.Sleep(time.Second)
			must(t, held.InProgress())
		}
		must(t, held.Nak())
		r.floor(2, 10*time.Second)
		w.ok(w.end())
		calls := r.calls.Calls()[n:]
		if last := calls[len(calls)-1]; len(calls) != 3 || last.Sequence != 1 || last.Attempt != 1 || w.records.broken.Load() != 0 || len(r.letters()) > 0 {
			t.Errorf("calls %v, broken %v, %d letters", calls, w.records.broken.Load(), len(r.letters()))
		}
	})
}

// A worker that starts while the bucket's leader moves, or the stream's, asks again: else it would count deliveries as attempts for its whole life, and make what it makes
// with one replica.
func TestStartInAnElection(t *testing.T) {
	c := testutil.Cluster(t, 3)
	r := newRig(t, c, 3)
	w := r.start(testutil.Succeed(), withLetters)
	w.working()
	w.ok(w.end())
	nc := c.Conn(t)
	for i := range 8 {
		_, err := nc.Request("$JS.API.STREAM.LEADER.STEPDOWN.KV_ackfloor_EVENTS", nil, 2*time.Second)
		must(t, err)
		w := r.start(testutil.Succeed(), withLetters)
		w.working()
		if !w.records.kept() {
			t.Fatalf("start %d works without records: %v", i, r.logged("no bucket for records"))
		}
		w.ok(w.end())
	}
}

// It does not ask for ever, nor where it is denied.
func TestStreamThatDoesNotAnswer(t *testing.T) {
	s := testutil.Server(t)
	r := newRig(t, s, 1)
	w := r.make(s.Conn(t), testutil.Succeed())
	w.subjects.streamInfo = "nobody.answers"
	if err := w.bindOnce(t.Context(), time.Now()); err == nil {
		t.Error("nobody answers, and it goes on at once")
	}
	if err := w.bindOnce(t.Context(), time.Now().Add(-electionWait)); err != nil || w.bound.stream != nil {
		t.Errorf("after ten seconds: %v", err)
	}
	if w.onceMore(&PermissionError{}, time.Now()) {
		t.Error("what is denied is asked again")
	}
}
