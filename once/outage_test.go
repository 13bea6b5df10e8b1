package once

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Without the bucket nothing is handled, and no attempt is charged; when it is back, the message is, and in no doubt.
func TestKVNothingIsHandledWithoutBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		k := newService(t, s.JetStream(t), KVConfig{})
		var calls testutil.Recorder
		m := testutil.Message("events.x", "x")
		for _, found := range []bool{false, true} {
			if found {
				must(t, k.Prepare(t.Context(), "TEST"))
			}
			s.Stop()
			err := attempt(t, k.Wrap(&calls), m, handleTimeout)
			if !is[*ackfloor.PauseError](err) || !is[*BucketError](err) || len(calls.Calls()) != 0 {
				t.Errorf("it returned %v, %d calls", err, len(calls.Calls()))
			}
			s.Start()
			time.Sleep(time.Second)
		}
		must(t, attempt(t, k.Wrap(&calls), m, handleTimeout))
		if st := k.Stats(); st != (KVStats{Done: 1}) {
			t.Errorf("%+v", st)
		}
	})
}

// Writes that are lost, or whose answers are: whichever it is, one call and no doubt.
func TestKVLostWritesAndAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		k := newService(t, s.JetStream(t), KVConfig{})
		f := k.flaky(t)
		for i, lose := range []func(){
			func() { f.creates.Store(2) },
			func() { f.unheard.Store(1) },
			func() { f.unheard.Store(2) },
			func() { f.updates.Store(5) },
			func() { f.gets.Store(1); f.unheard.Store(1) },
		} {
			m := testutil.Message("events.x", "x", testutil.Sequence(uint64(i+1)))
			var calls testutil.Recorder
			lose()
			for range 2 {
				must(t, attempt(t, k.Wrap(&calls), m, handleTimeout))
			}
			if len(calls.Calls()) != 1 {
				t.Errorf("%d: %d calls", i, len(calls.Calls()))
			}
		}
		if st := k.Stats(); st != (KVStats{Done: 5, Skipped: 5}) || len(k.doubts) != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A mark whose writing was given up and that arrived all the same holds this process off from nothing, nor is it in doubt, since no call followed it. That another call
// was broken off before stays known, though.
func TestKVKnowsItsOwnVoidMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		k := newService(t, s.JetStream(t), KVConfig{})
		f := k.flaky(t)
		m := testutil.Message("events.x", "x")
		var calls testutil.Recorder
		f.unheard.Store(1)
		f.gets.Store(2)
		if err := attempt(t, k.Wrap(&calls), m, handleTimeout); !is[*ackfloor.PauseError](err) {
			t.Errorf("it returned %v", err)
		}
		must(t, attempt(t, k.Wrap(&calls), m, handleTimeout))
		if st := k.Stats(); st != (KVStats{Done: 1}) || len(calls.Calls()) != 1 {
			t.Errorf("%+v, %d calls", st, len(calls.Calls()))
		}

		m = testutil.Message("events.x", "x", testutil.Sequence(2))
		dead(t, k, m, func() {})
		time.Sleep(handleTimeout + noteTail)
		f = k.flaky(t)
		f.unheard.Store(1) // the take-over
		go func() { time.Sleep(50 * time.Millisecond); f.gets.Store(2) }()
		if err := attempt(t, k.Wrap(&calls), m, handleTimeout); !is[*ackfloor.PauseError](err) || len(k.doubts) != 0 {
			t.Errorf("it returned %v, %d doubts", err, len(k.doubts))
		}
		must(t, attempt(t, k.Wrap(&calls), m, handleTimeout))
		if st := k.Stats(); st != (KVStats{Done: 2, PossibleDuplicates: 1}) || len(k.doubts) != 1 {
			t.Errorf("%+v, %d doubts", st, len(k.doubts))
		}

		m = testutil.Message("events.x", "x", testutil.Sequence(3))
		dead(t, k, m, func() {})
		time.Sleep(handleTimeout + noteTail)
		k.flaky(t).unheard.Store(1) // the take-over once more, whose mark is found by the next try
		must(t, attempt(t, k.Wrap(&calls), m, handleTimeout))
		if st := k.Stats(); st != (KVStats{Done: 3, PossibleDuplicates: 2}) || len(k.doubts) != 2 {
			t.Errorf("%+v, %d doubts", st, len(k.doubts))
		}
	})
}

// An effect that can't be noted while its context lives is an error that says so. This process skips the message once the bucket is back; to another it is in doubt.
func TestKVEffectThatIsNotNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		a, b := newService(t, s.JetStream(t), KVConfig{}), newService(t, s.JetStream(t), KVConfig{})
		f := a.flaky(t)
		first, second := testutil.Message("events.x", "x"), testutil.Message("events.x", "x", testutil.Sequence(2))
		for _, m := range []*ackfloor.Message{first, second} {
			began := time.Now()
			f.updates.Store(1 << 20)
			if err := attempt(t, a.Wrap(testutil.Succeed()), m, 10*time.Second); !errors.Is(err, ErrNotNoted) || !is[*BucketError](err) {
				t.Errorf("it returned %v", err)
			}
			if d := time.Since(began); d < 10*time.Second || d > 12*time.Second {
				t.Errorf("it tried for %v", d)
			}
		}
		f.updates.Store(0)
		var calls testutil.Recorder
		must(t, attempt(t, a.Wrap(&calls), first, handleTimeout))
		must(t, attempt(t, b.Wrap(&calls), first, handleTimeout))
		if st := a.Stats(); st != (KVStats{NotNoted: 2, Skipped: 1}) || b.Stats() != (KVStats{Skipped: 1}) || len(calls.Calls()) != 0 {
			t.Errorf("%+v, %+v, %d calls", st, b.Stats(), len(calls.Calls()))
		}
		time.Sleep(12 * time.Second)
		must(t, attempt(t, b.Wrap(&calls), second, handleTimeout))
		if st := b.Stats(); st != (KVStats{Done: 1, Skipped: 1, PossibleDuplicates: 1}) || len(calls.Calls()) != 1 {
			t.Errorf("%+v, %d calls", st, len(calls.Calls()))
		}
	})
}

// A bucket that comes back while the context lives is told; and a failure that can't be noted keeps what the handler asked for.
func TestKVNotesAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		k := newService(t, s.JetStream(t), KVConfig{})
		must(t, k.Prepare(t.Context(), ""))
		outage := func(d time.Duration, answer error) ackfloor.Handler {
			return ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
				s.Stop()
				go func() { time.Sleep(d); s.Start() }()
				return answer
			})
		}
		m := testutil.Message("events.x", "x")
		must(t, attempt(t, k.Wrap(outage(8*time.Second, nil)), m, handleTimeout))
		if st := k.Stats(); st != (KVStats{Done: 1}) {
			t.Errorf("%+v", st)
		}
		m = testutil.Message("events.x", "x", testutil.Sequence(2))
		err := attempt(t, k.Wrap(outage(20*time.Second, ackfloor.Permanent(errWork))), m, handleTimeout)
		if !is[*ackfloor.PermanentError](err) || !is[*BucketError](err) || !errors.Is(err, errWork) {
			t.Errorf("it returned %v", err)
		}
		time.Sleep(20 * time.Second)
		must(t, attempt(t, k.Wrap(testutil.Succeed()), m, handleTimeout))
		if st := k.Stats(); st != (KVStats{Done: 2}) {
			t.Errorf("%+v", st)
		}
	})
}

// The bucket is made with its TTL, by many at the same time; one that is there is left as it is, and said to forget too soon.
func TestKVMakesItsBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		ended := make(chan error)
		for range 5 {
			k := newService(t, s.JetStream(t), KVConfig{TTL: time.Hour})
			go func() { ended <- k.Prepare(t.Context(), "TEST") }()
		}
		for range 5 {
			must(t, <-ended)
		}
		kv, err := s.JetStream(t).KeyValue(t.Context(), "ackfloor_once")
		must(t, err)
		status, err := kv.Status(t.Context())
		must(t, err)
		if status.TTL() != time.Hour || status.History() != 1 {
			t.Errorf("TTL %v, history %d", status.TTL(), status.History())
		}
		k := newService(t, s.JetStream(t), KVConfig{})
		must(t, k.Prepare(t.Context(), "TEST"))
		if len(k.errs) != 1 || !strings.Contains(k.errs[0].Error(), "1h0m0s") {
			t.Errorf("reported %v", k.errs)
		}
		var calls testutil.Recorder
		m := testutil.Message("events.x", "x")
		must(t, attempt(t, k.Wrap(&calls), m, handleTimeout))
		must(t, kv.Delete(t.Context(), markKey(m))) // by an operator who wants it done again
		must(t, attempt(t, k.Wrap(&calls), m, handleTimeout))
		must(t, s.JetStream(t).DeleteKeyValue(t.Context(), "ackfloor_once"))
		m = testutil.Message("events.x", "x", testutil.Sequence(2))
		if err := attempt(t, k.Wrap(&calls), m, handleTimeout); !is[*ackfloor.PauseError](err) {
			t.Errorf("without its bucket it returned %v", err)
		}
		must(t, attempt(t, k.Wrap(&calls), m, handleTimeout)) // in a new one
		if len(calls.Calls()) != 3 {
			t.Errorf("%d calls", len(calls.Calls()))
		}
	})
}

// With these rights it works, none for the account's limits among them; without one of them, the error names it.
func TestKVRights(t *testing.T) {
	rights := []string{"$JS.API.STREAM.INFO.KV_ackfloor_once", "$JS.API.STREAM.CREATE.KV_ackfloor_once", "$KV.ackfloor_once.>", "$JS.API.DIRECT.GET.KV_ackfloor_once.>"}
	for i := -1; i < len(rights); i++ {
		allow, missing := append([]string(nil), rights...), ""
		if i >= 0 {
			missing = rights[i]
			allow = append(allow[:i], allow[i+1:]...)
		}
		t.Run("without "+missing, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t, func(o *server.Options) {
					o.Users = []*server.User{{Username: "w", Password: "w", Permissions: &server.Permissions{
						Publish: &server.SubjectPermission{Allow: allow}, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_W.>"}}}}}
				})
				nc := s.Conn(t, nats.UserInfo("w", "w"), nats.CustomInboxPrefix("_INBOX_W"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
				js, err := jetstream.New(nc)
				must(t, err)
				k := newService(t, js, KVConfig{})
				var calls testutil.Recorder
				m := testutil.Message("events.x", "x")
				err = attempt(t, k.Wrap(&calls), m, handleTimeout)
				if err == nil {
					err = attempt(t, k.Wrap(&calls), m, handleTimeout)
				}
				if missing == "" {
					must(t, err)
					return
				}
				e, ok := errors.AsType[*BucketError](err)
				if !ok || e.Allow != missing || !strings.Contains(err.Error(), missing) || !is[*ackfloor.PauseError](err) {
					t.Errorf("it returned %v, %+v", err, e)
				}
			})
		})
	}
}

// A new bucket has as many replicas as the stream.
func TestKVReplicas(t *testing.T) {
	c := testutil.Cluster(t, 3)
	c.Events(t, 1)
	js := c.JetStream(t)
	k := newService(t, js, KVConfig{})
	var calls testutil.Recorder
	m := testutil.Message("events.x", "x", testutil.Stream("EVENTS"))
	for range 20 { // an election
		if err := attempt(t, k.Wrap(&calls), m, handleTimeout); err == nil && len(calls.Calls()) == 1 && k.Stats().Skipped == 3 {
			break
		}
	}
	s, err := js.Stream(t.Context(), "KV_ackfloor_once")
	must(t, err)
	if n := s.CachedInfo().Config.Replicas; n != 3 || k.Stats().Skipped != 3 || len(k.doubts) != 0 {
		t.Errorf("%d replicas, %+v", n, k.Stats())
	}
}

// A bucket that is deleted while a handler runs is made anew for what it has done, before long.
func TestKVBucketIsDeletedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		k := newService(t, s.JetStream(t), KVConfig{})
		must(t, k.Prepare(t.Context(), "TEST"))
		calls := 0
		h := k.Wrap(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			calls++
			return s.JetStream(t).DeleteKeyValue(t.Context(), "ackfloor_once")
		}))
		m := testutil.Message("events.x", "x")
		began := time.Now()
		must(t, attempt(t, h, m, handleTimeout))
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		must(t, attempt(t, h, m, handleTimeout))
		if st := k.Stats(); calls != 1 || st.NotNoted > 0 || st.Skipped != 1 {
			t.Errorf("%d calls, %+v", calls, st)
		}
	})
}
