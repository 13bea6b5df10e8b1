// Package tracing has OpenTelemetry traces of what handlers do, on the OpenTelemetry API: which SDK and which exporter a process has is its own choice. It is
// a module of its own, so that only those who import it download go.opentelemetry.io/otel.
//
//	tr := tracing.New(tracing.Options{})
//	h = ackfloor.Chain(h, tr.Wrap)
//
// # Spans
//
// Each call of a handler, so each attempt, is a span of kind CONSUMER with the name "process <stream>". Its parent is the span that published the message, as the
// message's headers tell it; where they tell nothing it is the span of the context that Run was given, and a trace of its own where there is none. When there
// are both, the second becomes a link. The handler's context carries the span.
//
// Several messages that are worked on at once are one span, "process <stream>" too, with a link to each message's publisher: see Tracing.Batch.
//
// A Runner that is followed (Tracing.Follow, or Tracing.Part in worker.Main) has a span of kind CLIENT for each settlement, "settle <stream>", under that of the attempt: from when
// it was first sent until the server had confirmed it; a batch has one for all of its messages. A retry that is made in place settles nothing and has none, nor has what
// is replayed from the dead letters.
//
// PublishMsg makes a span of kind PRODUCER and puts its context into the headers, so that what a handler publishes goes on in the same trace. Inject only
// puts the context into the headers, for other ways to publish.
//
// # Attributes
//
// Those of the semantic conventions for messaging, which are in development: the names may change with a version of this module.
//
//	messaging.system                 "nats"
//	messaging.operation.type         process, send, settle
//	messaging.operation.name         process, publish, ack, nak, term; settle for a batch that was settled in several ways
//	messaging.destination.name       the stream
//	messaging.destination.template   Options.Filter
//	messaging.consumer.group.name    the durable consumer
//	messaging.message.id             Nats-Msg-Id, or "<stream>:<sequence>"
//	messaging.message.body.size      bytes
//	messaging.batch.message_count    of a batch
//	error.type                       the outcome, where it is an error
//
// And of our own:
//
//	ackfloor.subject                 to which the message was published
//	ackfloor.sequence                in the stream
//	ackfloor.attempt                 1 on the first
//	ackfloor.outcome                 ok, failed, permanent, retry_after, paused, timed_out, interrupted, panicked
//	ackfloor.retry_after             seconds that RetryAfter or Pause asks for
//	ackfloor.reason                  the error's text of a call that was paused or interrupted, which is no failure
//	ackfloor.tries                   how often a settlement was sent
//	ackfloor.confirmed               whether the server confirmed it
//	ackfloor.duplicate               the server had what was published already
//
// The outcome is what the handler returned. What became of the message afterwards, an acknowledgement, a retry or a dead letter, is decided and confirmed behind
// the handler: the settle span tells it, where the Runner is followed.
//
// # Logs
//
// worker.Logger and worker.Slog add trace_id and span_id to each line of a handler that has a span.
//
// # Headers
//
// What carries the context is the propagator's business: traceparent, tracestate and baggage with the usual ones. NATS takes headers as they are written, and servers
// before 2.14 write Traceparent for traceparent: they are written in lower case and read in any.
//
// # Without a provider
//
// As long as no TracerProvider is set, here or with otel.SetTracerProvider, Wrap calls the handler with its own context and does nothing else.
// The propagator too has to be set, here or with otel.SetTextMapPropagator: by default OpenTelemetry propagates nothing.
package tracing
