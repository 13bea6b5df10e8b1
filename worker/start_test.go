package worker

import (
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
