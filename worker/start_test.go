package worker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// A start reads as it is written, and what a consumer's configuration says is told the same way.
func TestStartIsReadBack(t *testing.T) {
	for in, want := range map[string]string{"": "all", "all": "all", "new": "new", "last": "last", "seq:1": "seq:1", "seq:18446744073709551615": "seq:18446744073709551615",
		"time:2026-11-05T08:00:00Z": "time:2026-11-05T08:00:00Z", "time:2026-11-05T09:00:00+01:00": "time:2026-11-05T08:00:00Z"} {
		s, err := parseStart(in)
		if err != nil || s.String() != want {
			t.Errorf("%q reads %v, %v", in, s, err)
		}
		if back := startOf(wanted(Config{Start: in})); back.String() != want {
			t.Errorf("%q is told as %v", in, back)
		}
	}
	if s := startOf(jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}).String(); s != jetstream.DeliverLastPerSubjectPolicy.String() {
		t.Errorf("a policy that we have no word for is told as %q", s)
	}
	if s := startOf(jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy}).String(); s == "" {
		t.Error("a start time that is missing is told as nothing")
	}
}

// A new consumer starts where it was told to: what is handled first, out of five messages a second apart and one more after the start.
func TestNewConsumerStartsThere(t *testing.T) {
	for at, first := range map[string]uint64{"": 1, "all": 1, "new": 6, "last": 5, "seq:3": 3, "seq:5": 5, "time": 4} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 0)
				began := time.Now()
				for range 5 {
					s.Events(t, 1)
					time.Sleep(time.Second)
				}
				value := at
				if at == "time" {
					value = "time:" + began.Add(3*time.Second).UTC().Format(time.RFC3339) // the moment of the fourth, to the second
				}
				w := r.start(testutil.Succeed(), func(c *Config) { c.Start, c.Concurrency = value, 1 })
				time.Sleep(time.Second)
				s.Events(t, 1)
				r.floor(6, 5*time.Second)
				w.ok(w.end())
				if seqs := r.calls.Sequences(); seqs[0] != first || len(seqs) != int(7-first) {
					t.Errorf("handled %v, want from %d", seqs, first)
				}
				if !w.Status().Created {
					t.Error("the status does not say that the consumer is new")
				}
			})
		})
	}
}

// A stream that is not there is waited for, with one line, up to the start-up limit; the error names it.
func TestMissingStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), -1)
		began := time.Now()
		err := r.start(testutil.Succeed()).wait(10 * time.Second)
		gone, ok := errors.AsType[*UnavailableError](err)
		if !ok || gone.What != `stream "EVENTS"` || gone.ExitCode() != 69 || apiCode(err) != codeStreamNotFound {
			t.Fatalf("Run returned %v", err)
		}
		if d := time.Since(began); d < 5*time.Second || d > 6*time.Second || gone.Waited.Round(time.Second) != 5*time.Second {
			t.Errorf("it gave up after %v, and says %v", d, gone.Waited)
		}
		if n := r.logged(`waiting for stream "EVENTS"`); n != 1 || r.logged("waiting for") != 1 {
			t.Errorf("%d lines say that it waits for the stream", n)
		}
	})
}

// A stream that comes while it is waited for is worked on from its beginning.
func TestStreamComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, -1)
		w := r.start(testutil.Succeed())
		time.Sleep(2 * time.Second)
		if s := w.Status(); s.State != StateBinding || s.Ready || !s.Alive || s.Reason != "binding" {
			t.Errorf("the status is %+v", s)
		}
		s.Events(t, 3)
		r.floor(3, time.Second)
		w.ok(w.end())
		r.onceEach(3)
	})
}

// A server that is away at the start is waited for as well, and named when the limit passes.
func TestServerAwayAtStart(t *testing.T) {
	for _, back := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := testutil.Bubble(t)
			r := newRig(t, s, 3)
			nc := s.Conn(t)
			s.Stop()
			time.Sleep(100 * time.Millisecond)
			w := r.startOn(nc, testutil.Succeed())
			time.Sleep(2 * time.Second)
			if back {
				s.Start()
				r.floor(3, 3*time.Second)
				w.ok(w.end())
				r.onceEach(3)
				return
			}
			err := w.wait(10 * time.Second)
			gone, ok := errors.AsType[*UnavailableError](err)
			if !ok || gone.What != "the server" {
				t.Errorf("Run returned %v", err)
			}
		})
	}
}

// Told to stop while it waits, a worker has nothing to finish: it ends well and at once.
func TestStopWhileBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), -1)
		w := r.start(testutil.Succeed())
		time.Sleep(time.Second)
		w.ok(w.end())
		if w.took > 100*time.Millisecond {
			t.Errorf("it took %v", w.took)
		}
	})
}

// BIND=existing makes nothing: a consumer that is missing is waited for, and named.
func TestExistingMakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 3)
		existing := func(c *Config) { c.Bind = BindExisting }
		err := r.start(testutil.Succeed(), existing).wait(10 * time.Second)
		gone, ok := errors.AsType[*UnavailableError](err)
		if !ok || gone.What != `consumer "D" on stream "EVENTS"` {
			t.Fatalf("Run returned %v", err)
		}
		stream, err := s.JetStream(t).Stream(t.Context(), rigStream)
		if err != nil || stream.CachedInfo().State.Consumers != 0 {
			t.Errorf("there are %d consumers, %v", stream.CachedInfo().State.Consumers, err)
		}
		w := r.start(testutil.Succeed(), existing)
		time.Sleep(time.Second)
		s.Consumer(t, rigStream, wanted(r.cfg))
		r.floor(3, time.Second)
		w.ok(w.end())
		if w.Status().Created {
			t.Error("the status says that the Runner made it")
		}
	})
}
