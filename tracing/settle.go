package tracing

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/worker"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

const settle = "settle"

// settlesKept is how many handled messages may wait for their settlement to be told; the oldest one beyond that has no span of it. What a Runner
// keeps unconfirmed is bounded at half of it.
const settlesKept = 16384

// settles knows the spans of messages that were handled and are not settled yet.
type settles struct {
	following atomic.Int32 // Runners that tell of settlements
	mu        sync.Mutex
	waiting   map[message]*handled
	order     []message // a ring, in which they began to wait
	next      int
}

// message names one for as long as it waits.
type message struct {
	stream, consumer string
	sequence         uint64
}

// handled is a call of a handler: for one message, or for a batch.
type handled struct {
	span            trace.SpanContext
	id              string // of the message; "" of a batch
	left            int    // messages that are not settled
	settled         int
	kind            string // "settle" where there were several
	sent, confirmed time.Time
	tries           int
	unconfirmed     bool
}

// Follow has a span made of each settlement of r, as a child of the span in which the message was handled: from when the settlement was first sent until the
// server had confirmed it. Only what is sampled has one. Spans are made and ended in the goroutine that takes the server's answers, so the provider must export behind a batch
// processor, as one does in production: with a processor that exports at once, an exporter that hangs holds up all confirmations. It takes Runner.OnSettled. Part does the same as a part of worker.Main. ctx gives the values that the SDK's samplers and processors see; it
// ends nothing. It may be called before r runs.
func (t *Tracing) Follow(ctx context.Context, r *worker.Runner) {
	ctx = context.WithoutCancel(ctx)
	stream, consumer := r.Config().Stream, r.Config().Consumer
	t.settles.following.Add(1)
	r.OnSettled(func(s worker.Settled) {
		if h := t.settles.took(message{stream, consumer, s.Sequence}, s); h != nil {
			t.settleSpan(ctx, stream, consumer, s.Sequence, h)
		}
	})
}

// Part is a part of worker.Main that follows its Runner: see Follow.
func (t *Tracing) Part(ctx context.Context, r *worker.Runner) error {
	t.Follow(ctx, r)
	<-ctx.Done()
	return nil
}

// await remembers the span in which messages were handled. It returns the calls before, of which the last messages that were not settled have now been handled
// again: their retries were made in place.
func (s *settles) await(span trace.SpanContext, messages ...*ackfloor.Message) (over []*handled) {
	if s.following.Load() == 0 || !span.IsSampled() {
		return nil
	}
	h := &handled{span: span, left: len(messages)}
	if len(messages) == 1 {
		h.id = messages[0].ID()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting, s.order = make(map[message]*handled), make([]message, settlesKept)
	}
	for _, m := range messages {
		key := message{m.Stream, m.Consumer, m.Sequence}
		if before := s.waiting[key]; before != nil {
			if before.left--; before.left == 0 && before.settled > 0 {
				over = append(over, before)
			}
		} else {
			delete(s.waiting, s.order[s.next])
			s.order[s.next] = key
			s.next = (s.next + 1) % settlesKept
		}
		s.waiting[key] = h
	}
	return over
}

// handledIn has the settlement of messages told as a child of the span in which they were handled.
func (t *Tracing) handledIn(ctx context.Context, span trace.Span, messages ...*ackfloor.Message) {
	for _, h := range t.settles.await(span.SpanContext(), messages...) {
		t.settleSpan(ctx, messages[0].Stream, messages[0].Consumer, 0, h)
	}
}

// took counts a settlement, and returns the call when all of its messages are settled.
func (s *settles) took(key message, one worker.Settled) *handled {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.waiting[key]
	if h == nil {
		return nil
	}
	delete(s.waiting, key)
	if h.settled == 0 || one.Sent.Before(h.sent) {
		h.sent = one.Sent
	}
	if one.Confirmed.After(h.confirmed) {
		h.confirmed = one.Confirmed
	}
	if h.settled == 0 {
		h.kind = one.Kind
	} else if h.kind != one.Kind {
		h.kind = settle
	}
	h.settled++
	h.tries = max(h.tries, one.Tries)
	h.unconfirmed = h.unconfirmed || one.Confirmed.IsZero()
	if h.left--; h.left > 0 {
		return nil
	}
	return h
}

func (t *Tracing) settleSpan(ctx context.Context, stream, consumer string, sequence uint64, h *handled) {
	attributes := []attribute.KeyValue{system, semconv.MessagingOperationTypeSettle, semconv.MessagingOperationName(h.kind),
		semconv.MessagingDestinationName(stream), semconv.MessagingConsumerGroupName(consumer), keyTries.Int(h.tries), keyConfirmed.Bool(!h.unconfirmed)}
	if h.id != "" {
		attributes = append(attributes, semconv.MessagingMessageID(h.id), keySequence.Int64(int64(sequence)))
	} else {
		attributes = append(attributes, semconv.MessagingBatchMessageCount(h.settled))
	}
	_, span := t.tracer.Start(trace.ContextWithSpanContext(ctx, h.span), settle+" "+stream, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(h.sent),
		trace.WithAttributes(attributes...))
	end := h.confirmed
	if end.Before(h.sent) {
		end = h.sent
	}
	span.End(trace.WithTimestamp(end))
}
