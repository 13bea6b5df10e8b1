package tracing

import (
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"go.opentelemetry.io/otel/trace"
)

func spanContext(flags trace.TraceFlags) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: flags})
}

// What is not sampled, and what nobody follows, is not kept; what is never told of is given up for newer ones.
func TestWhatWaitsIsBounded(t *testing.T) {
	var s settles
	m := testutil.Message("events.a", nil, testutil.Sequence(1))
	s.await(spanContext(trace.FlagsSampled), m)
	s.following.Store(1)
	s.await(spanContext(0), m)
	if len(s.waiting) != 0 {
		t.Errorf("%d are kept", len(s.waiting))
	}
	for seq := range uint64(3 * settlesKept) {
		s.await(spanContext(trace.FlagsSampled), testutil.Message("events.a", nil, testutil.Sequence(seq+1)))
	}
	if len(s.waiting) != settlesKept {
		t.Errorf("%d are kept", len(s.waiting))
	}
	if s.took(message{m.Stream, m.Consumer, 1}, worker.Settled{}) != nil || s.took(message{m.Stream, m.Consumer, 3 * settlesKept}, worker.Settled{}) == nil {
		t.Error("not the oldest ones were given up")
	}
}

// A batch's settlement lasts from the first that was sent until the last that was confirmed. A message of it whose retry was made in place is left out.
func TestBatchIsSettledAsAWhole(t *testing.T) {
	var s settles
	s.following.Store(1)
	a, b, c := testutil.Message("events.a", nil, testutil.Sequence(1)), testutil.Message("events.a", nil, testutil.Sequence(2)), testutil.Message("events.a", nil, testutil.Sequence(3))
	s.await(spanContext(trace.FlagsSampled), a, b, c)
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	key := func(seq uint64) message { return message{a.Stream, a.Consumer, seq} }
	if s.took(key(2), worker.Settled{Kind: "ack", Sent: at.Add(2), Confirmed: at.Add(9), Tries: 1}) != nil || s.took(key(1), worker.Settled{Kind: "ack", Sent: at.Add(1), Confirmed: at.Add(5), Tries: 3}) != nil {
		t.Fatal("told before all were settled")
	}
	over := s.await(spanContext(trace.FlagsSampled), c)
	if len(over) != 1 || over[0].sent != at.Add(1) || over[0].confirmed != at.Add(9) || over[0].settled != 2 || over[0].tries != 3 || over[0].kind != "ack" || over[0].unconfirmed {
		t.Errorf("told %+v", over)
	}
	if h := s.took(key(3), worker.Settled{Kind: "ack", Sent: at}); h == nil || !h.unconfirmed || h.id == "" {
		t.Errorf("the one that was handled again: %+v", h)
	}
}
