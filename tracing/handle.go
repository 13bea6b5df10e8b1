package tracing

import (
	"context"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/worker"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

const (
	process = "process"

	keySubject    = attribute.Key("ackfloor.subject")
	keySequence   = attribute.Key("ackfloor.sequence")
	keyAttempt    = attribute.Key("ackfloor.attempt")
	keyOutcome    = attribute.Key("ackfloor.outcome")
	keyRetryAfter = attribute.Key("ackfloor.retry_after")
	keyReason     = attribute.Key("ackfloor.reason")
	keyTries      = attribute.Key("ackfloor.tries")
	keyConfirmed  = attribute.Key("ackfloor.confirmed")
	keyDuplicate  = attribute.Key("ackfloor.duplicate")
)

var system = semconv.MessagingSystemKey.String("nats")

// Wrap is an ackfloor.Middleware that makes a span of each call of the handler. What is inside of it is in the span.
func (t *Tracing) Wrap(h ackfloor.Handler) ackfloor.Handler {
	return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		if t.off() {
			return h.Handle(ctx, m)
		}
		return t.handle(ctx, m, h)
	})
}

func (t *Tracing) handle(ctx context.Context, m *ackfloor.Message, h ackfloor.Handler) (err error) {
	spanned, span := t.start(ctx, m)
	returned := false
	defer func() {
		finish(ctx, span, err, returned)
		t.handledIn(ctx, span, m)
	}()
	err = h.Handle(worker.WithLogFields(spanned, logFields), m)
	returned = true
	return err
}

// start begins the span of one message.
func (t *Tracing) start(ctx context.Context, m *ackfloor.Message) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(t.attributes(m)...)}
	around := trace.SpanContextFromContext(ctx)
	ctx = t.Extract(ctx, m)
	if around.IsValid() && !trace.SpanContextFromContext(ctx).Equal(around) {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: around}))
	}
	return t.tracer.Start(ctx, process+" "+m.Stream, options...)
}

func (t *Tracing) attributes(m *ackfloor.Message) []attribute.KeyValue {
	out := append(make([]attribute.KeyValue, 0, 11), t.common(m)...)
	return append(out, semconv.MessagingMessageID(m.ID()), semconv.MessagingMessageBodySize(len(m.Data)),
		keySubject.String(m.Subject), keySequence.Int64(int64(m.Sequence)), keyAttempt.Int(m.Attempt))
}

// common are the attributes of whatever comes from one consumer.
func (t *Tracing) common(m *ackfloor.Message) []attribute.KeyValue {
	out := []attribute.KeyValue{system, semconv.MessagingOperationTypeProcess, semconv.MessagingOperationName(process),
		semconv.MessagingDestinationName(m.Stream), semconv.MessagingConsumerGroupName(m.Consumer)}
	if t.filter != "" {
		out = append(out, semconv.MessagingDestinationTemplate(t.filter))
	}
	return out
}

// Batch begins a span for several messages that are worked on at once, as by a handler that collects them. Its parent is that of ctx; it has a link to the
// publisher of each message. end ends it with what came of it; it is called once. The messages are those of one consumer.
func (t *Tracing) Batch(ctx context.Context, messages []*ackfloor.Message) (_ context.Context, end func(error)) {
	if t.off() || len(messages) == 0 {
		return ctx, func(error) {}
	}
	var links []trace.Link
	for _, m := range messages {
		// A context of its own, or a message without headers would be given the span around.
		from := trace.SpanContextFromContext(t.Extract(trace.ContextWithSpanContext(ctx, trace.SpanContext{}), m))
		if from.IsValid() {
			links = append(links, trace.Link{SpanContext: from, Attributes: []attribute.KeyValue{semconv.MessagingMessageID(m.ID()), keyAttempt.Int(m.Attempt)}})
		}
	}
	spanned, span := t.tracer.Start(ctx, process+" "+messages[0].Stream, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links...),
		trace.WithAttributes(append(t.common(messages[0]), semconv.MessagingBatchMessageCount(len(messages)))...))
	return worker.WithLogFields(spanned, logFields), func(err error) {
		finish(ctx, span, err, true)
		t.handledIn(ctx, span, messages...)
	}
}

// logFields are what worker.Logger adds to each line of a handler.
func logFields(ctx context.Context) []zap.Field {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return nil
	}
	return []zap.Field{zap.Stringer("trace_id", span.TraceID()), zap.Stringer("span_id", span.SpanID())}
}
