package tracing_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/tracing"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// receiver takes spans over OTLP, as a collector does.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*otlp.Span
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var in collector.ExportTraceServiceRequest
		if err != nil || req.URL.Path != "/v1/traces" || proto.Unmarshal(body, &in) != nil {
			http.Error(w, "no spans", http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, resource := range in.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Close)
	return r
}

func word(s *otlp.Span, key string) string {
	for _, kv := range s.Attributes {
		if kv.Key == key {
			return kv.Value.GetStringValue()
		}
	}
	return ""
}

// One trace through two services, a server and a receiver of OTLP: who publishes an order, the attempts to handle it, what the handler that succeeds
// publishes on, who handles that, and how both were acknowledged.
func TestEndToEnd(t *testing.T) {
	to := newReceiver(t)
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(to.URL+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(resource.Empty()))
	tr := tracing.New(tracing.Options{TracerProvider: provider, Propagator: both})
	s := testutil.Server(t)
	s.Stream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}})
	js := s.JetStream(t)

	run := func(consumer, filter string, h ackfloor.Handler) {
		t.Helper()
		r, err := worker.New(s.Conn(t), worker.Config{Stream: "EVENTS", Consumer: consumer, Filter: []string{filter}, RetrySchedule: "10ms", MaxAttempts: 5,
			ExitWhenIdle: true, Logger: zap.NewNop()}, ackfloor.Chain(h, tr.Wrap))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		tr.Follow(ctx, r)
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tr.PublishMsg(t.Context(), js, &nats.Msg{Subject: "events.ordered", Data: []byte("teapot")}); err != nil {
		t.Fatal(err)
	}
	run("inventory", "events.ordered", ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		if m.Attempt < 3 {
			return errors.New("the row is locked")
		}
		_, err := tr.PublishMsg(ctx, js, &nats.Msg{Subject: "events.reserved", Data: m.Data, Header: m.Header})
		return err
	}))
	run("email", "events.reserved", testutil.Succeed())
	if err := provider.Shutdown(t.Context()); err != nil { // sends what is left
		t.Fatal(err)
	}

	to.mu.Lock()
	defer to.mu.Unlock()
	under := make(map[string][]*otlp.Span)
	for _, span := range to.spans {
		if string(span.TraceId) != string(to.spans[0].TraceId) {
			t.Errorf("%s is in another trace", span.Name)
		}
		under[string(span.ParentSpanId)] = append(under[string(span.ParentSpanId)], span)
	}
	roots := under[""]
	if len(to.spans) != 8 || len(roots) != 1 || roots[0].Name != "publish EVENTS" || roots[0].Kind != otlp.Span_SPAN_KIND_PRODUCER {
		t.Fatalf("%d spans: %v", len(to.spans), to.spans)
	}
	attempts := under[string(roots[0].SpanId)]
	if len(attempts) != 3 {
		t.Fatalf("%d attempts: %v", len(attempts), attempts)
	}
	for _, a := range attempts {
		reserved, settled := split(under[string(a.SpanId)])
		failed := word(a, "ackfloor.outcome") == "failed"
		if a.Name != "process EVENTS" || a.Kind != otlp.Span_SPAN_KIND_CONSUMER || word(a, "messaging.consumer.group.name") != "inventory" ||
			failed != (len(reserved) == 0) || failed != (len(settled) == 0) || failed != (a.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR) {
			t.Errorf("attempt: %v", a)
		}
		for _, p := range reserved {
			mails := under[string(p.SpanId)]
			if p.Name != "publish EVENTS" || len(mails) != 1 || word(mails[0], "messaging.consumer.group.name") != "email" {
				t.Fatalf("published on: %v, handled: %v", p, mails)
			}
			if acks := under[string(mails[0].SpanId)]; len(acks) != 1 || acks[0].Name != "settle EVENTS" || acks[0].Kind != otlp.Span_SPAN_KIND_CLIENT {
				t.Errorf("settled: %v", acks)
			}
		}
	}
}

// split tells what a handler published from how its message was settled.
func split(spans []*otlp.Span) (published, settled []*otlp.Span) {
	for _, s := range spans {
		if s.Name == "settle EVENTS" {
			settled = append(settled, s)
		} else {
			published = append(published, s)
		}
	}
	return published, settled
}
