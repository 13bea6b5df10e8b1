package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// withLetters turns on what the rig of the core leaves off.
func withLetters(c *Config) { c.DeadLetter, c.Records = rigStream+"_DLQ", "ackfloor_"+rigStream }

// store opens the dead letters for a look.
func (r *rig) store() *deadletter.Store {
	r.t.Helper()
	s, err := deadletter.Open(context.Background(), r.s.Conn(r.t, r.admin...), rigStream+"_DLQ", "")
	must(r.t, err)
	return s
}

// letters lists the dead letters.
func (r *rig) letters() []*deadletter.Letter {
	r.t.Helper()
	var out []*deadletter.Letter
	for l, err := range r.store().List(context.Background(), deadletter.Filter{}) {
		must(r.t, err)
		out = append(out, l)
	}
	return out
}

// awaitLetters waits until there are n dead letters.
func (r *rig) awaitLetters(n int, limit time.Duration) []*deadletter.Letter {
	r.t.Helper()
	js := r.s.(interface {
		JetStream(testing.TB, ...nats.Option) jetstream.JetStream
	}).JetStream(r.t, r.admin...)
	for deadline := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		if s, err := js.Stream(context.Background(), rigStream+"_DLQ"); err == nil && int(s.CachedInfo().State.Msgs) >= n {
			return r.letters()
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("after %v there are %d dead letters, not %d", limit, len(r.letters()), n)
		}
	}
}

// A message that always fails ends as one dead letter, whatever the stream keeps: its attempts are counted, the floor moves past it, and what
// was published is in the letter.
func TestExhaustedMessageIsOneDeadLetter(t *testing.T) {
	for _, retention := range []jetstream.RetentionPolicy{jetstream.LimitsPolicy, jetstream.InterestPolicy, jetstream.WorkQueuePolicy} {
		for name, fail := range map[string]error{"an error": errWork, "RetryAfter": ackfloor.RetryAfter(300*time.Millisecond, errWork)} {
			t.Run(retention.String()+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := testutil.Bubble(t)
					s.Stream(t, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}, Retention: retention})
					r := newRig(t, s, -1)
					w := r.start(testutil.ByData(map[string]ackfloor.Handler{"bad": testutil.Fail(-1, fail)}, testutil.Succeed()), withLetters)
					w.working()
					put(t, s, "events.a", "good", nil)
					put(t, s, "events.b", "bad", nats.Header{"User": {"x", "y"}, "Nats-Msg-Id": {"id-1"}})
					put(t, s, "events.c", "good", nil)
					letters := r.awaitLetters(1, 20*time.Second)
					r.floor(3, 5*time.Second)
					time.Sleep(time.Minute)
					w.ok(w.end())
					if n := r.calls.Count(2); n != 5 {
						t.Errorf("%d attempts, want 5", n)
					}
					if len(r.letters()) != 1 {
						t.Fatalf("%d letters", len(r.letters()))
					}
					l := letters[0]
					if l.Subject != "events.b" || l.Stream != rigStream || l.Consumer != rigConsumer || l.MessageSequence != 2 || l.Deliveries != 1 || l.Attempts != 5 ||
						l.Reason != deadletter.ReasonExhausted || !strings.Contains(l.Error, errWork.Error()) || string(l.Data) != "bad" || l.Published.IsZero() || l.Host == "" {
						t.Errorf("the letter says %+v", l)
					}
					if !slices.Equal(l.Header["User"], []string{"x", "y"}) || l.Header.Get("Nats-Msg-Id") != "id-1" || len(l.Header) != 2 {
						t.Errorf("its headers are %v", l.Header)
					}
					if spread := l.LastFailed.Sub(l.FirstFailed); spread < 300*time.Millisecond || spread > 5*time.Second {
						t.Errorf("from the first failure to the last %v", spread)
					}
					if c := w.Status().Counts; c.DeadLettered != 1 || c.Terminated != 0 || c.Retried != 4 || c.Exhausted != 1 || c.Acked != 2 {
						t.Errorf("counted %+v", c)
					}
				})
			})
		}
	}
}

func put(t *testing.T, s rigServer, subject, body string, h nats.Header) uint64 {
	t.Helper()
	nc := s.Conn(t)
	js, err := jetstream.New(nc)
	must(t, err)
	ack, err := js.PublishMsg(context.Background(), &nats.Msg{Subject: subject, Data: []byte(body), Header: h})
	must(t, err)
	return ack.Sequence
}

// While dead letters can't be written nothing is terminated, the others go on, the tries are spaced, readiness and a counter tell; and as
// soon as they can there is one of each.
func TestDeadLettersThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 100)
		js := s.JetStream(t)
		bad := map[string]ackfloor.Handler{}
		for i := range 10 { // none of the first, which may be there before the stream is gone
			bad[fmt.Sprint(50+i)] = testutil.Fail(-1, ackfloor.Permanent(errWork))
		}
		w := r.start(testutil.ByData(bad, ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		})), withLetters)
		w.working()
		must(t, js.DeleteStream(context.Background(), rigStream+"_DLQ"))
		r.calls.WaitDistinct(t, 100, 20*time.Second)
		time.Sleep(30 * time.Second)
		st := w.Status()
		if st.Ready || !strings.Contains(st.Reason, "dead letters") || st.Counts.Terminated+st.Counts.DeadLettered > 0 || st.Kept != 10 {
			t.Errorf("without the stream: ready %v (%q), kept %d, counted %+v", st.Ready, st.Reason, st.Kept, st.Counts)
		}
		if n := st.Counts.DeadLetterFailures; n < 6 || n > 30 {
			t.Errorf("%d tries in 30 s", n)
		}
		cfg := jetstream.StreamConfig{Name: rigStream + "_DLQ", Subjects: deadletter.Subjects(rigStream), MaxMsgs: 3, Discard: jetstream.DiscardNew, AllowDirect: true, MaxMsgsPerSubject: 1}
		s.Stream(t, cfg)
		r.awaitLetters(3, 10*time.Second)
		time.Sleep(20 * time.Second)
		if st := w.Status(); st.Ready || st.Counts.DeadLettered != 3 || st.Kept != 7 || !strings.Contains(st.Reason, "no room") {
			t.Errorf("full: ready %v (%q), kept %d, counted %+v", st.Ready, st.Reason, st.Kept, st.Counts)
		}
		cfg.MaxMsgs = -1
		_, err := js.UpdateStream(context.Background(), cfg)
		must(t, err)
		r.awaitLetters(10, 10*time.Second)
		r.floor(100, 5*time.Second)
		if st := w.Status(); !st.Ready || st.Kept != 0 || st.Counts.DeadLettered != 10 {
			t.Errorf("good again: ready %v (%q), kept %d, counted %+v", st.Ready, st.Reason, st.Kept, st.Counts)
		}
		w.ok(w.end())
		r.onceEach(100)
		if n := len(r.letters()); n != 10 {
			t.Errorf("%d letters", n)
		}
	})
}

// A stop while dead letters can't be written hands their messages back, and the next worker writes them without handling the messages again.
func TestStopWhileDeadLettersCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 10)
		gone := make(chan struct{})
		w := r.start(testutil.ByData(map[string]ackfloor.Handler{"8": testutil.Fail(-1, ackfloor.Permanent(errWork))}, testutil.Block(gone)), withLetters)
		w.working()
		must(t, s.JetStream(t).DeleteStream(context.Background(), rigStream+"_DLQ"))
		close(gone)
		r.calls.WaitDistinct(t, 10, 5*time.Second)
		time.Sleep(time.Second)
		w.ok(w.end())
		if w.took > 3*time.Second {
			t.Errorf("the drain took %v", w.took)
		}
		w = r.start(testutil.Succeed(), withLetters)
		letters := r.awaitLetters(1, 10*time.Second)
		r.floor(10, 5*time.Second)
		w.ok(w.end())
		r.onceEach(10)
		if l := letters[0]; l.MessageSequence != 9 || l.Reason != deadletter.ReasonPermanent || !strings.Contains(l.Error, errWork.Error()) || l.Attempts != 1 {
			t.Errorf("the letter says %+v", l)
		}
	})
}

// What can't be decoded goes to the dead letters as it is, at once, and the others are handled.
func TestUndecodableIsDeadLettered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		s.Stream(t, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}})
		r := newRig(t, s, -1)
		bodies := []string{`{"n":1}`, `{`, ``, "{\"n\":\"\xff\xfe\"}", `{"n":"one"}`, strings.Repeat("\x00\xff garbage", 1<<20/10), `{"n":7}`}
		for _, b := range bodies {
			put(t, s, "events.x", b, nil)
		}
		handled := 0
		w := r.start(ackfloor.JSON(func(_ context.Context, v struct{ N int }, _ *ackfloor.Message) error {
			handled += v.N
			return nil
		}), withLetters, func(c *Config) { c.Concurrency = 1 })
		letters := r.awaitLetters(5, 20*time.Second)
		r.floor(7, 5*time.Second)
		w.ok(w.end())
		if handled != 8 {
			t.Errorf("the handler saw %d", handled)
		}
		for _, l := range letters {
			l, err := r.store().Get(context.Background(), l.Sequence) // also what is stored beside a very large one
			must(t, err)
			if l.Reason != deadletter.ReasonUndecodable || string(l.Data) != bodies[l.MessageSequence-1] || l.Error == "" {
				t.Errorf("letter of %d: %q %q, %d bytes", l.MessageSequence, l.Reason, l.Error, len(l.Data))
			}
		}
	})
}

// crash lets go of a Runner as a killed process would: its connection is gone, and nothing of what it held is settled.
func (w *running) crash() {
	w.nc.Close()
	<-w.done
	claims.Clear()
}

// A message whose process dies each time ends in the dead letters as suspected, after few deaths; those that ran beside it are handled.
func TestMessageThatKillsItsProcess(t *testing.T) {
	for _, exact := range []bool{true, false} {
		t.Run(fmt.Sprintf("records kept %v", exact), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, testutil.Bubble(t), 100)
				deaths := 0
				over := false
				for !over && deaths < 20 {
					die := make(chan struct{}, 1)
					release := make(chan struct{})
					w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
						if m.Sequence == 42 {
							die <- struct{}{}
							<-release // nothing of it gets out any more
							return errWork
						}
						time.Sleep(20 * time.Millisecond)
						return nil
					}), withLetters, func(c *Config) {
						c.DrainTimeout, c.PullExpiry = 200*time.Millisecond, time.Second
						if !exact {
							c.Records = off
						}
					})
					select {
					case <-die:
						deaths++
						w.nc.Close()
						close(release)
						<-w.done
						claims.Clear()
					case <-time.After(20 * time.Second):
						over = true
						w.ok(w.end())
					}
				}
				letters := map[uint64]*deadletter.Letter{}
				for _, l := range r.letters() {
					letters[l.MessageSequence] = l
				}
				want := deadletter.ReasonCrash
				if !exact {
					want = deadletter.ReasonExhausted
				}
				l := letters[42]
				if l == nil || l.Reason != want || deaths > 5 || l.Deliveries < deaths || l.Error == "" {
					t.Fatalf("after %d deaths the letter says %+v", deaths, l)
				}
				if exact && len(letters) != 1 || len(letters) > 4 { // else those that ran beside it are charged too
					t.Errorf("%d letters", len(letters))
				}
				r.floor(100, time.Second)
				if n := r.calls.Distinct(); n != 100 {
					t.Errorf("%d of 100 handled", n)
				}
			})
		})
	}
}

// What interrupts a message is no attempt: stops, lost deliveries, the death of a process that another message caused.
func TestAttemptsAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1)
		two := func(c *Config) { c.MaxAttempts, c.DrainTimeout = 2, 100*time.Millisecond }
		for range 4 { // returned at a stop
			w := r.start(testutil.Sleep(time.Minute), withLetters, two)
			time.Sleep(3 * time.Second)
			_ = w.end()
		}
		w := r.start(testutil.Fail(1, errWork), withLetters, two)
		r.floor(1, 10*time.Second)
		w.ok(w.end())
		calls := r.calls.Calls()
		last := calls[len(calls)-2:]
		if last[0].Attempt != 1 || last[1].Attempt != 2 || last[1].Err != nil {
			t.Errorf("attempts %d and %d", last[0].Attempt, last[1].Attempt)
		}
		if r.logged("a suspect") != 0 {
			t.Error("it was suspected")
		}
		if n := len(r.letters()); n != 0 {
			t.Errorf("%d letters", n)
		}
	})
}

// A handler that hangs past its time on every attempt never says a word; its attempts count all the same, and it ends in the dead letters.
func TestHungOnEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 3)
		release := make(chan struct{})
		t.Cleanup(func() { close(release) })
		hung := ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { <-release; return nil })
		var workers []*running
		for range 6 {
			claims.Clear()
			w := r.start(testutil.ByData(map[string]ackfloor.Handler{"1": hung}, testutil.Succeed()), withLetters, func(c *Config) {
				c.HandleTimeout, c.MaxAttempts, c.Concurrency, c.DrainTimeout = time.Second, 4, 2, 100*time.Millisecond
			})
			workers = append(workers, w)
			time.Sleep(10 * time.Second)
		}
		letters := r.awaitLetters(1, 10*time.Second)
		r.floor(3, 5*time.Second)
		if l := letters[0]; l.MessageSequence != 2 || l.Reason != deadletter.ReasonTimedOut || l.Attempts != 4 || len(letters) != 1 {
			t.Errorf("%d letters, the first says %+v", len(letters), l)
		}
		if n := r.calls.Count(2); n != 4 {
			t.Errorf("%d calls, want 4", n)
		}
		for _, w := range workers {
			_ = w.end()
		}
	})
}

// No secret of an error's text gets out: not into a line of the log, not into a letter; and nothing of it acts on a terminal.
func TestSecretsOfErrorsStayInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 2)
		err := fmt.Errorf("dial nats://bob:hunter2@db.example:4222/x: \x1b[2Jrefused\nforged line")
		w := r.start(testutil.ByData(map[string]ackfloor.Handler{"0": testutil.Fail(-1, err), "1": testutil.Fail(-1, ackfloor.Permanent(err))}, testutil.Succeed()), withLetters)
		letters := r.awaitLetters(2, 10*time.Second)
		w.ok(w.end())
		texts := []string{letters[0].Error, letters[1].Error}
		for _, e := range r.logs.All() {
			texts = append(texts, fmt.Sprint(e.Message, e.ContextMap()))
		}
		for _, s := range texts {
			if strings.Contains(s, "hunter2") || strings.ContainsAny(s, "\x1b\n") {
				t.Errorf("%q", s)
			}
		}
		if !strings.Contains(letters[0].Error, "db.example") {
			t.Errorf("the letter says %q", letters[0].Error)
		}
	})
}

// A stream that was sealed takes nothing: it is as with one that is missing.
func TestSealedDeadLetterStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 10)
		js := s.JetStream(t)
		sealed := make(chan struct{})
		w := r.start(testutil.ByData(map[string]ackfloor.Handler{"3": ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
			<-sealed
			return ackfloor.Permanent(errWork)
		})}, testutil.Succeed()), withLetters)
		w.working()
		st, err := js.Stream(context.Background(), rigStream+"_DLQ")
		must(t, err)
		cfg := st.CachedInfo().Config
		cfg.Sealed = true
		_, err = js.UpdateStream(context.Background(), cfg)
		must(t, err)
		close(sealed)
		r.calls.WaitDistinct(t, 10, 5*time.Second)
		time.Sleep(10 * time.Second)
		if st := w.Status(); st.Ready || st.Kept != 1 || st.Counts.Acked != 9 || st.Counts.Terminated+st.Counts.DeadLettered > 0 || st.Counts.DeadLetterFailures < 3 {
			t.Errorf("sealed: ready %v (%s), kept %d, counted %+v", st.Ready, st.Reason, st.Kept, st.Counts)
		}
		must(t, js.DeleteStream(context.Background(), rigStream+"_DLQ"))
		s.Stream(t, jetstream.StreamConfig{Name: rigStream + "_DLQ", Subjects: deadletter.Subjects(rigStream), Discard: jetstream.DiscardNew, AllowDirect: true, MaxMsgsPerSubject: 1})
		r.awaitLetters(1, 10*time.Second)
		r.floor(10, 5*time.Second)
		w.ok(w.end())
		r.onceEach(10)
	})
}

// A panic is told with its stack in the log, and in a short form in the letter; a timeout by its cause.
func TestLettersOfPanicsAndTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 3)
		h := testutil.ByData(map[string]ackfloor.Handler{"0": testutil.Panic("boom\nsecond line"), "1": testutil.Block(nil), "2": testutil.Goexit()}, testutil.Succeed())
		w := r.start(h, withLetters, func(c *Config) { c.MaxAttempts, c.HandleTimeout = 2, time.Second })
		letters := r.awaitLetters(3, 20*time.Second)
		w.ok(w.end())
		for _, l := range letters {
			want := map[uint64][2]string{1: {deadletter.ReasonExhausted, "panic: boom"}, 2: {deadletter.ReasonTimedOut, "handle timeout"}, 3: {deadletter.ReasonExhausted, "Goexit"}}[l.MessageSequence]
			if l.Reason != want[0] || !strings.Contains(l.Error, want[1]) || strings.Contains(l.Error, "goroutine") || len(l.Error) > 200 || l.Attempts != 2 {
				t.Errorf("the letter of %d says %q, %q", l.MessageSequence, l.Reason, l.Error)
			}
		}
		for _, e := range r.logs.FilterMessageSnippet("given up").All() {
			if f := e.ContextMap(); f["sequence"] == uint64(1) && !strings.Contains(fmt.Sprint(f["stack"]), "goroutine") {
				t.Errorf("no stack in %v", f)
			}
		}
	})
}
