package once

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

// A hundred messages are handled; the consumer is deleted and made anew at the first: nothing is handled again, and a hundred are skipped.
func TestKVSurvivesNewConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		s.Events(t, 100)
		k := newService(t, s.JetStream(t), KVConfig{})
		var inner testutil.Recorder
		work(t, s, ackfloor.Chain(testutil.Fail(1, errWork), k.Wrap, inner.Wrap), 100)
		if st := k.Stats(); st.Done != 100 || st.Skipped != 0 || len(inner.Calls()) != 200 {
			t.Fatalf("first: %+v, %d calls", st, len(inner.Calls()))
		}
		must(t, s.JetStream(t).DeleteConsumer(t.Context(), "EVENTS", "D"))
		var again testutil.Recorder
		next := newService(t, s.JetStream(t), KVConfig{})
		work(t, s, ackfloor.Chain(&again, next.Wrap), 100)
		if st := next.Stats(); st != (KVStats{Skipped: 100}) || len(again.Calls()) != 0 {
			t.Errorf("again: %+v, %d calls", st, len(again.Calls()))
		}
		if len(k.doubts)+len(next.doubts)+len(k.errs)+len(next.errs) != 0 {
			t.Errorf("reported: %v %v %v %v", k.doubts, next.doubts, k.errs, next.errs)
		}
	})
}

// What is not done is not recorded as done: an error, each that the worker treats specially, a panic, Goexit, a context that ended. And what the handler returned
// reaches the worker as it is.
func TestKVFailedIsNotDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		k := newService(t, s.JetStream(t), KVConfig{})
		for i, tt := range []struct {
			name  string
			h     ackfloor.Handler
			is    func(error) bool
			doubt int // of the next call
		}{
			{"an error", testutil.Fail(-1, errWork), func(err error) bool { return err == errWork }, 0},
			{"Permanent", testutil.Fail(-1, ackfloor.Permanent(errWork)), is[*ackfloor.PermanentError], 0},
			{"RetryAfter", testutil.Fail(-1, ackfloor.RetryAfter(time.Hour, errWork)), is[*ackfloor.RetryAfterError], 0},
			{"Pause", testutil.Fail(-1, ackfloor.Pause(time.Hour, errWork)), is[*ackfloor.PauseError], 0},
			{"a context that ended", testutil.Sleep(time.Hour), func(err error) bool { return errors.Is(err, ackfloor.ErrHandleTimeout) }, 0},
			{"a panic", testutil.Panic("p"), is[*ackfloor.PanicError], 1},
			{"Goexit", testutil.Goexit(), is[*ackfloor.PanicError], 1},
		} {
			m := testutil.Message("events.x", "x", testutil.Sequence(uint64(i+1)))
			if err := attempt(t, k.Wrap(tt.h), m, handleTimeout); !tt.is(err) {
				t.Errorf("%s: it returned %v", tt.name, err)
			}
			var calls testutil.Recorder
			doubts := len(k.doubts)
			for range 2 {
				must(t, attempt(t, k.Wrap(&calls), m, handleTimeout))
			}
			if n := len(calls.Calls()); n != 1 || len(k.doubts)-doubts != tt.doubt {
				t.Errorf("%s: %d calls behind it, %d doubts", tt.name, n, len(k.doubts)-doubts)
			}
		}
		if st := k.Stats(); st != (KVStats{Done: 7, Skipped: 7, PossibleDuplicates: 2}) {
			t.Errorf("%+v", st)
		}
	})
}

func is[E error](err error) bool { _, ok := errors.AsType[E](err); return ok }

// The mark of a process that died holds others off until its deadline has passed, and the tail. Then the message is handled again and reported, before the call.
func TestKVRepeatsAfterDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		a, b := newService(t, s.JetStream(t), KVConfig{}), newService(t, s.JetStream(t), KVConfig{})
		m := testutil.Message("events.x", "x")
		began := time.Now()
		dead(t, a, m, func() {})
		time.Sleep(10 * time.Second)
		var calls testutil.Recorder
		h := b.Wrap(calls.Wrap(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			if len(b.doubts) != 1 {
				t.Error("it is called before that is reported")
			}
			return nil
		})))
		err := attempt(t, h, m, handleTimeout)
		after, ok := errors.AsType[*ackfloor.RetryAfterError](err)
		if !ok || !errors.Is(err, ErrBusy) || after.Delay < 22*time.Second || after.Delay > 22*time.Second+2*again {
			t.Fatalf("it returned %v, %+v", err, after)
		}
		time.Sleep(after.Delay)
		must(t, attempt(t, h, m, handleTimeout))
		must(t, attempt(t, h, m, handleTimeout))
		if st := b.Stats(); st != (KVStats{Done: 1, Skipped: 1, Busy: 1, PossibleDuplicates: 1}) || len(calls.Calls()) != 1 {
			t.Errorf("%+v, %d calls", st, len(calls.Calls()))
		}
		if d := b.doubts[0]; d.Message != m || d.Refused || d.Since.Sub(began).Abs() > time.Second {
			t.Errorf("reported %+v", d)
		}
	})
}

// With Refuse it is given up instead, again and again, until somebody replays it from the dead letters.
func TestKVRefusesAfterDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		k := newService(t, s.JetStream(t), KVConfig{InDoubt: Refuse})
		m := testutil.Message("events.x", "x")
		dead(t, k, m, func() {})
		time.Sleep(handleTimeout + noteTail)
		var calls testutil.Recorder
		for range 2 {
			if err := attempt(t, k.Wrap(&calls), m, handleTimeout); !errors.Is(err, ErrInDoubt) || !is[*ackfloor.PermanentError](err) {
				t.Errorf("it returned %v", err)
			}
		}
		replay := testutil.Message("events.x", "x", testutil.Published(m.Published), testutil.Header("Ackfloor-Replays", "1"))
		must(t, attempt(t, k.Wrap(&calls), replay, handleTimeout))
		if st := k.Stats(); st != (KVStats{Done: 1, Refused: 2, PossibleDuplicates: 1}) || len(calls.Calls()) != 1 {
			t.Errorf("%+v, %d calls", st, len(calls.Calls()))
		}
		if len(k.doubts) != 3 || !k.doubts[0].Refused || k.doubts[2].Refused {
			t.Errorf("reported %+v", k.doubts)
		}
	})
}

// Of eight processes with one message at the same time, one calls its handler.
func TestKVOneOfManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		var calls testutil.Recorder
		m := testutil.Message("events.x", "x")
		var all sync.WaitGroup
		var mu sync.Mutex
		results := map[string]int{}
		for range 8 {
			k := newService(t, s.JetStream(t), KVConfig{})
			all.Go(func() {
				err := attempt(t, k.Wrap(calls.Wrap(testutil.Sleep(time.Second))), m, handleTimeout)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					results["done"]++
				case errors.Is(err, ErrBusy):
					results["busy"]++
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(calls.Calls()) != 1 || results["done"] != 1 || results["busy"] != 7 {
			t.Errorf("%d calls, %v", len(calls.Calls()), results)
		}
	})
}

// A handler that goes on behind its deadline and then succeeds: done is a fact, whoever has the mark by then, and whatever that one comes to.
func TestKVDoneWins(t *testing.T) {
	for name, answer := range map[string]error{"the other fails": errWork, "the other succeeds": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				a, b := newService(t, s.JetStream(t), KVConfig{}), newService(t, s.JetStream(t), KVConfig{})
				m := testutil.Message("events.x", "x")
				var all sync.WaitGroup
				all.Go(func() { must(t, attempt(t, a.Wrap(testutil.Stubborn(time.Minute)), m, handleTimeout)) })
				all.Go(func() {
					time.Sleep(handleTimeout + noteTail + time.Second)
					h := ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { time.Sleep(40 * time.Second); return answer })
					if err := attempt(t, b.Wrap(h), m, time.Minute); !errors.Is(err, answer) {
						t.Errorf("it returned %v", err)
					}
				})
				all.Wait()
				var calls testutil.Recorder
				must(t, attempt(t, b.Wrap(&calls), m, handleTimeout))
				if len(calls.Calls()) != 0 || b.Stats().PossibleDuplicates != 1 || len(b.doubts) != 1 {
					t.Errorf("%d calls, %+v", len(calls.Calls()), b.Stats())
				}
			})
		})
	}
}

// A handler that goes on behind its deadline and then fails leaves the mark alone that is another's by then: a third process finds that one running.
func TestKVFailedLeavesOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		a, b, c := newService(t, s.JetStream(t), KVConfig{}), newService(t, s.JetStream(t), KVConfig{}), newService(t, s.JetStream(t), KVConfig{})
		m := testutil.Message("events.x", "x")
		var all sync.WaitGroup
		all.Go(func() {
			h := ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { time.Sleep(time.Minute); return errWork })
			if err := attempt(t, a.Wrap(h), m, handleTimeout); !errors.Is(err, errWork) {
				t.Errorf("it returned %v", err)
			}
		})
		all.Go(func() {
			time.Sleep(handleTimeout + noteTail + time.Second)
			must(t, attempt(t, b.Wrap(testutil.Sleep(50*time.Second)), m, time.Minute))
		})
		time.Sleep(70 * time.Second)
		if err := attempt(t, c.Wrap(testutil.Succeed()), m, handleTimeout); !errors.Is(err, ErrBusy) {
			t.Errorf("it returned %v", err)
		}
		all.Wait()
	})
}

// Another stream of the name, another consumer, another sequence, another time: other messages. Names that no key could hold make keys.
func TestKVMessagesAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		k := newService(t, s.JetStream(t), KVConfig{})
		at := time.Now()
		var calls testutil.Recorder
		others := [][]testutil.MessageOption{
			{}, {testutil.Sequence(2)}, {testutil.Stream("ÄRA")}, {testutil.Consumer("größe=1")}, {testutil.Published(at.Add(1))}, {testutil.Consumer("Test")},
		}
		for _, o := range others {
			o = append([]testutil.MessageOption{testutil.Published(at)}, o...)
			for range 2 {
				must(t, attempt(t, k.Wrap(&calls), testutil.Message("events.x", "x", o...), handleTimeout))
			}
		}
		if st := k.Stats(); st != (KVStats{Done: 6, Skipped: 6}) || len(calls.Calls()) != 6 {
			t.Errorf("%+v, %d calls", st, len(calls.Calls()))
		}
	})
}

// What KV and SQL can't be told is told, all of it.
func TestConfigurations(t *testing.T) {
	_, err := NewKV(nil, KVConfig{Bucket: "a.b", TTL: time.Second, Replicas: 9, InDoubt: 7})
	if e, ok := errors.AsType[*ConfigError](err); !ok || len(e.Problems) != 5 || e.ExitCode() != 78 {
		t.Errorf("KV: %v", err)
	}
	_, err = NewSQL(nil, SQLConfig{Table: `x"; DROP TABLE y`, Keep: 7, Isolation: 99})
	if e, ok := errors.AsType[*ConfigError](err); !ok || len(e.Problems) != 5 {
		t.Errorf("SQL: %v", err)
	}
}

func TestTableNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"ackfloor_once": true, "app.once": true, "ORDER": true, "_x": true, "": false, "1x": false, "a.b.c": false,
		`a"b`: false, "a`b": false, "a b": false, ".a": false, "größe": false,
	} {
		if tableName.MatchString(name) != ok {
			t.Errorf("%q: %v", name, !ok)
		}
	}
	if q := quoted(MySQL, "app.order"); q != "`app`.`order`" {
		t.Error(q)
	}
	if q := quoted(PostgreSQL, "app.order"); q != `"app"."order"` {
		t.Error(q)
	}
}
