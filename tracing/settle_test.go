package tracing_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/tracing"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go/jetstream"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// named are the spans of one name, by span id.
func (r *rig) named(name string) map[string]tracetest.SpanStub {
	out := make(map[string]tracetest.SpanStub)
	for _, s := range r.spans.GetSpans() {
		if s.Name == name {
			out[s.SpanContext.SpanID().String()] = s
		}
	}
	return out
}

// Each settlement is a span under that of its attempt: how it was settled, from when it was sent until it was confirmed. The lines of the handler's logger carry the trace.
func TestSettleSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		s.Events(t, 40)
		r := newRig(t, tracing.Options{})
		core, logs := observer.New(zapcore.InfoLevel)
		run, err := worker.New(s.Conn(t), worker.Config{Stream: "EVENTS", Consumer: "D", RetrySchedule: "2s", DeadLetter: "off", Records: "off", ExitWhenIdle: true, Logger: zap.New(core)},
			ackfloor.Chain(ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
				worker.Logger(ctx).Info("handling")
				switch {
				case m.Sequence == 3:
					return ackfloor.Permanent(errors.New("never"))
				case m.Sequence == 4 && m.Attempt == 1:
					return errors.New("not yet")
				}
				return nil
			}), r.Wrap))
		if err != nil {
			t.Fatal(err)
		}
		r.Follow(t.Context(), run)
		if err := run.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		processed, settled := r.named("process EVENTS"), r.named("settle EVENTS")
		if len(processed) != 41 || len(settled) != 41 {
			t.Fatalf("%d attempts, %d settlements", len(processed), len(settled))
		}
		kinds := make(map[string]int)
		for _, span := range settled {
			under, ok := processed[span.Parent.SpanID().String()]
			if !ok || span.SpanContext.TraceID() != under.SpanContext.TraceID() {
				t.Fatalf("%v is under no attempt", span)
			}
			of, a := attributes(under.Attributes), attributes(span.Attributes)
			kinds[a["messaging.operation.name"]]++
			want := map[string]string{"messaging.operation.name": "ack", "messaging.operation.type": "settle", "messaging.system": "nats", "messaging.destination.name": "EVENTS",
				"messaging.consumer.group.name": "D", "messaging.message.id": of["messaging.message.id"], "ackfloor.sequence": of["ackfloor.sequence"], "ackfloor.confirmed": "true", "ackfloor.tries": "1"}
			switch of["ackfloor.sequence"] + "/" + of["ackfloor.attempt"] {
			case "3/1":
				want["messaging.operation.name"] = "term"
			case "4/1":
				want["messaging.operation.name"] = "nak"
			}
			has(t, span, want)
			if span.SpanKind != trace.SpanKindClient || span.StartTime.Before(under.StartTime) || span.EndTime.Before(span.StartTime) {
				t.Errorf("%v from %v to %v", span.SpanKind, span.StartTime, span.EndTime)
			}
		}
		if kinds["ack"] != 39 || kinds["nak"] != 1 || kinds["term"] != 1 {
			t.Errorf("settled as %v", kinds)
		}
		for _, line := range logs.FilterMessage("handling").All() {
			of, ok := processed[line.ContextMap()["span_id"].(string)]
			if !ok || of.SpanContext.TraceID().String() != line.ContextMap()["trace_id"] {
				t.Errorf("a line carries %v", line.ContextMap())
			}
		}
	})
}

// A batch has one span of its settlement; one whose messages were settled in several ways says so.
func TestSettleSpanOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		s.Events(t, 10)
		r := newRig(t, tracing.Options{})
		run, err := worker.NewBatch(s.Conn(t), worker.Config{Stream: "EVENTS", Consumer: "D", RetrySchedule: "2s", DeadLetter: "off", Records: "off", ExitWhenIdle: true, Logger: zap.NewNop(),
			BatchSize: 10, Concurrency: 1}, ackfloor.BatchHandlerFunc(func(ctx context.Context, b *ackfloor.Batch) (err error) {
			_, end := r.Batch(ctx, b.Messages)
			defer func() { end(err) }()
			if len(b.Messages) == 10 {
				return &ackfloor.BatchError{Errors: map[int]error{0: errors.New("not yet")}}
			}
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		r.Follow(t.Context(), run)
		if err := run.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		settled := r.named("settle EVENTS")
		if len(settled) != 2 {
			t.Fatalf("%d settlements", len(settled))
		}
		for _, span := range settled {
			a := attributes(span.Attributes)
			switch a["messaging.batch.message_count"] {
			case "10":
				has(t, span, map[string]string{"messaging.operation.name": "settle", "ackfloor.sequence": ""})
			case "": // one message is named
				has(t, span, map[string]string{"messaging.operation.name": "ack"})
			default:
				t.Errorf("a span of %s messages", a["messaging.batch.message_count"])
			}
		}
	})
}

// Retries that are made in place settle nothing: there is one settlement, under the attempt that succeeded. What is not sampled has none, and nothing is kept for it.
func TestSettleSpansOfRetriesInPlace(t *testing.T) {
	for name, sampler := range map[string]sdk.Sampler{"sampled": sdk.AlwaysSample(), "not sampled": sdk.NeverSample()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				s.Stream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}})
				if _, err := s.JetStream(t).Publish(t.Context(), "events.a", nil); err != nil {
					t.Fatal(err)
				}
				spans := tracetest.NewInMemoryExporter()
				provider := sdk.NewTracerProvider(sdk.WithSyncer(spans), sdk.WithSampler(sampler))
				r := &rig{tracing.New(tracing.Options{TracerProvider: provider}), spans, provider}
				run, err := worker.New(s.Conn(t), worker.Config{Stream: "EVENTS", Consumer: "D", RetrySchedule: "100ms", ExitWhenIdle: true, Logger: zap.NewNop()},
					ackfloor.Chain(testutil.Fail(2, errors.New("not yet")), r.Wrap))
				if err != nil {
					t.Fatal(err)
				}
				r.Follow(t.Context(), run)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := run.Run(ctx); err != nil {
					t.Fatal(err)
				}
				processed, settled := r.named("process EVENTS"), r.named("settle EVENTS")
				if name == "not sampled" {
					if len(processed)+len(settled) != 0 {
						t.Errorf("%d and %d spans", len(processed), len(settled))
					}
					return
				}
				if len(processed) != 3 || len(settled) != 1 {
					t.Fatalf("%d attempts, %d settlements", len(processed), len(settled))
				}
				for _, span := range settled {
					has(t, processed[span.Parent.SpanID().String()], map[string]string{"ackfloor.attempt": "3"})
				}
			})
		})
	}
}
