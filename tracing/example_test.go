package tracing_test

import (
	"context"
	"fmt"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/tracing"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// A call of the handler is a span under the publisher's, and what it publishes carries that on.
func ExampleTracing_Wrap() {
	spans := tracetest.NewInMemoryExporter()
	tr := tracing.New(tracing.Options{
		TracerProvider: sdk.NewTracerProvider(sdk.WithSyncer(spans)), // without these two: what is set for the process
		Propagator:     propagation.TraceContext{},
	})
	h := ackfloor.Chain(ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		fmt.Println("handled in", trace.SpanContextFromContext(ctx).TraceID())
		next := &nats.Msg{Subject: "events.reserved", Data: m.Data}
		tr.Inject(ctx, next) // or publish it with tr.PublishMsg
		fmt.Println("goes on in", next.Header.Get("traceparent")[3:35])
		return nil
	}), tr.Wrap)
	_ = h.Handle(context.Background(), testutil.Message("events.ordered", "teapot",
		testutil.Header("traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")))
	fmt.Println(spans.GetSpans()[0].Name)
	// Output:
	// handled in 0123456789abcdef0123456789abcdef
	// goes on in 0123456789abcdef0123456789abcdef
	// process TEST
}
