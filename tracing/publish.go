package tracing

import (
	"context"
	"strconv"

	"github.com/ackfloor/ackfloor/internal/outcome"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Publisher is what PublishMsg publishes with: a jetstream.JetStream, or what stands in for one.
type Publisher interface {
	PublishMsg(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error)
}

// PublishMsg publishes m with js, in a span whose context m carries, and returns what js does. Called with a handler's context, the message belongs to the
// trace of the one that is handled. m itself is not changed. Without a provider it only carries on what ctx has.
func (t *Tracing) PublishMsg(ctx context.Context, js Publisher, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	carried := *m
	if t.off() {
		t.Inject(ctx, &carried)
		return js.PublishMsg(ctx, &carried, opts...)
	}
	attributes := []attribute.KeyValue{system, semconv.MessagingOperationTypeSend, semconv.MessagingOperationName("publish"),
		semconv.MessagingMessageBodySize(len(m.Data)), keySubject.String(m.Subject)}
	id := ""
	if ids := m.Header[nats.MsgIdHdr]; len(ids) > 0 && ids[0] != "" {
		id = ids[0]
		attributes = append(attributes, semconv.MessagingMessageID(id))
	}
	// The stream, which the name ends with, is known once the server has answered.
	ctx, span := t.tracer.Start(ctx, "publish", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attributes...))
	defer span.End()
	t.Inject(ctx, &carried)
	ack, err := js.PublishMsg(ctx, &carried, opts...)
	if err != nil {
		mark(span, outcome.Failed, text(err))
		return ack, err
	}
	span.SetName("publish " + ack.Stream)
	span.SetAttributes(semconv.MessagingDestinationName(ack.Stream), keySequence.Int64(int64(ack.Sequence)), keyOutcome.String(outcome.OK.String()))
	if id == "" {
		span.SetAttributes(semconv.MessagingMessageID(ack.Stream + ":" + strconv.FormatUint(ack.Sequence, 10)))
	}
	if ack.Duplicate {
		span.SetAttributes(keyDuplicate.Bool(true))
	}
	return ack, nil
}
