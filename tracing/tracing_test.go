package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/tracing"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

var both = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

const (
	parent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	traced = "0123456789abcdef0123456789abcdef"
)

// rig is a Tracing whose spans stay in memory.
type rig struct {
	*tracing.Tracing
	spans    *tracetest.InMemoryExporter
	provider *sdk.TracerProvider
}

func newRig(t testing.TB, o tracing.Options) *rig {
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	o.TracerProvider, o.Propagator = provider, both
	return &rig{tracing.New(o), spans, provider}
}

func (r *rig) one(t testing.TB) tracetest.SpanStub {
	t.Helper()
	spans := r.spans.GetSpans()
	if len(spans) != 1 {
		t.Fatalf("%d spans: %v", len(spans), spans)
	}
	r.spans.Reset()
	return spans[0]
}

// attributes are a span's, in words.
func attributes(kvs []attribute.KeyValue) map[string]string {
	out := make(map[string]string)
	for _, kv := range kvs {
		out[string(kv.Key)] = kv.Value.String()
	}
	return out
}

func has(t testing.TB, s tracetest.SpanStub, want map[string]string) {
	t.Helper()
	got := attributes(s.Attributes)
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: %s is %q, want %q", s.Name, k, got[k], v)
		}
	}
}

// Each attempt is a span of its own, a child of the publisher's, with the attributes of the conventions; and the handler's context carries it.
func TestSpanOfACall(t *testing.T) {
	r := newRig(t, tracing.Options{Filter: "events.>"})
	var within trace.SpanContext
	var member string
	h := r.Wrap(ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		within = trace.SpanContextFromContext(ctx)
		member = baggage.FromContext(ctx).Member("tenant").Value()
		return nil
	}))
	for attempt := 1; attempt <= 2; attempt++ {
		m := testutil.Message("events.order", "12345", testutil.Stream("EVENTS"), testutil.Consumer("billing"), testutil.Sequence(7), testutil.Attempt(attempt),
			testutil.Header("traceparent", parent), testutil.Header("baggage", "tenant=acme"))
		if err := h.Handle(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		s := r.one(t)
		if s.Name != "process EVENTS" || s.SpanKind != trace.SpanKindConsumer || s.Status.Code != codes.Unset || len(s.Links) != 0 {
			t.Errorf("%+v", s)
		}
		if s.SpanContext.TraceID().String() != traced || s.Parent.SpanID().String() != "0123456789abcdef" || !s.Parent.IsRemote() {
			t.Errorf("it belongs to %v under %v", s.SpanContext.TraceID(), s.Parent.SpanID())
		}
		if !within.Equal(s.SpanContext) || member != "acme" {
			t.Errorf("the handler's context carries %v and %q", within, member)
		}
		if scope := s.InstrumentationScope.Name; scope != "github.com/ackfloor/ackfloor/tracing" {
			t.Errorf("scope %q", scope)
		}
		want := map[string]string{
			"messaging.system": "nats", "messaging.operation.type": "process", "messaging.operation.name": "process", "messaging.destination.name": "EVENTS",
			"messaging.destination.template": "events.>", "messaging.consumer.group.name": "billing", "messaging.message.id": "EVENTS:7", "messaging.message.body.size": "5",
			"ackfloor.subject": "events.order", "ackfloor.sequence": "7", "ackfloor.attempt": fmt.Sprint(attempt), "ackfloor.outcome": "ok",
		}
		has(t, s, want)
		if len(s.Attributes) != len(want) {
			t.Errorf("attributes: %v", attributes(s.Attributes))
		}
	}
}

// Whose child a span is, by what the message carries and what is around.
func TestParents(t *testing.T) {
	r := newRig(t, tracing.Options{})
	around, service := r.provider.Tracer("test").Start(t.Context(), "service")
	service.End()
	r.spans.Reset()
	id := service.SpanContext().TraceID().String()
	for _, tc := range []struct {
		name   string
		ctx    context.Context
		header []testutil.MessageOption
		trace  string // "" means one of its own
		links  int
	}{
		{"nothing", t.Context(), nil, "", 0},
		{"other headers", t.Context(), []testutil.MessageOption{testutil.Header("Nats-Msg-Id", "1")}, "", 0},
		{"a publisher", t.Context(), []testutil.MessageOption{testutil.Header("traceparent", parent)}, traced, 0},
		{"as servers before 2.14 write it", t.Context(), []testutil.MessageOption{testutil.Header("Traceparent", parent)}, traced, 0},
		{"in another case", t.Context(), []testutil.MessageOption{testutil.Header("TRACEPARENT", parent)}, traced, 0},
		{"two, of which one is ours", t.Context(), []testutil.MessageOption{testutil.Header("Traceparent", strings.Replace(parent, "0123", "4567", 1)), testutil.Header("traceparent", parent)}, traced, 0},
		{"broken", t.Context(), []testutil.MessageOption{testutil.Header("traceparent", "00-\xff")}, "", 0},
		{"a service around", around, nil, id, 0},
		{"a service around, a broken header", around, []testutil.MessageOption{testutil.Header("traceparent", "")}, id, 0},
		{"both", around, []testutil.MessageOption{testutil.Header("traceparent", parent)}, traced, 1},
	} {
		if err := r.Wrap(testutil.Succeed()).Handle(tc.ctx, testutil.Message("events.a", nil, tc.header...)); err != nil {
			t.Error(err)
		}
		s := r.one(t)
		got := s.SpanContext.TraceID().String()
		if tc.trace != "" && got != tc.trace || tc.trace == "" && (got == traced || got == id || s.Parent.IsValid()) {
			t.Errorf("%s: it belongs to trace %s", tc.name, got)
		}
		if len(s.Links) != tc.links || tc.links == 1 && !s.Links[0].SpanContext.Equal(service.SpanContext()) {
			t.Errorf("%s: links %v", tc.name, s.Links)
		}
	}
}

type brokenError struct{}

func (*brokenError) Error() string { panic("a nil pointer") }
func (*brokenError) Is(error) bool { panic("a nil pointer") }
func (*brokenError) As(any) bool   { panic("a nil pointer") }

// call calls a handler as a slot does, in a goroutine that may end.
func call(ctx context.Context, h ackfloor.Handler, m *ackfloor.Message) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		err = h.Handle(ctx, m)
	}()
	<-done
	return err
}

// Every way in which a call can end shows in its span, which ends in any case; and what the handler returned comes back.
func TestOutcomes(t *testing.T) {
	r := newRig(t, tracing.Options{})
	down := errors.New("down")
	live := t.Context()
	over := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(live)
		cancel(cause)
		return ctx
	}
	for _, tc := range []struct {
		want   string
		ctx    context.Context
		h      ackfloor.Handler
		status codes.Code
		text   string // of the status, or the reason
	}{
		{"ok", live, testutil.Succeed(), codes.Unset, ""},
		{"ok", over(ackfloor.ErrStopping), testutil.Succeed(), codes.Unset, ""},
		{"failed", live, testutil.Fail(-1, down), codes.Error, "down"},
		{"failed", live, testutil.Fail(-1, errors.New(strings.Repeat("€", 1000))), codes.Error, strings.Repeat("€", 333) + "…"},
		{"failed", live, testutil.Fail(-1, &brokenError{}), codes.Error, "*tracing_test.brokenError, a method of which panicked"},
		{"permanent", over(ackfloor.ErrStopping), testutil.Fail(-1, ackfloor.Permanent(down)), codes.Error, "down"},
		{"retry_after", live, testutil.Fail(-1, ackfloor.RetryAfter(2*time.Second, down)), codes.Error, "down"},
		{"paused", live, testutil.Fail(-1, ackfloor.Pause(2*time.Second, down)), codes.Unset, "down"},
		{"timed_out", over(ackfloor.ErrHandleTimeout), testutil.Fail(-1, down), codes.Error, "down"},
		{"interrupted", over(ackfloor.ErrStopping), testutil.Fail(-1, down), codes.Unset, "down"},
		{"interrupted", over(ackfloor.ErrLeaseLost), testutil.Fail(-1, ackfloor.Pause(time.Second, down)), codes.Unset, "down"},
		{"panicked", live, testutil.Panic("at the disco"), codes.Error, "the handler panicked, or ended its goroutine"},
		{"panicked", live, testutil.Goexit(), codes.Error, "the handler panicked, or ended its goroutine"},
		{"panicked", live, testutil.Fail(-1, &ackfloor.PanicError{Value: 1}), codes.Error, "ackfloor: the handler panicked: 1"},
	} {
		got := call(tc.ctx, r.Wrap(tc.h), testutil.Message("events.a", nil))
		if want := call(tc.ctx, tc.h, testutil.Message("events.a", nil)); got != want {
			t.Errorf("%s: it returned %v", tc.want, got)
		}
		s := r.one(t)
		a := attributes(s.Attributes)
		text, errorType := a["ackfloor.reason"], ""
		if tc.status == codes.Error {
			text, errorType = s.Status.Description, tc.want
		}
		if a["ackfloor.outcome"] != tc.want || s.Status.Code != tc.status || text != tc.text || a["error.type"] != errorType {
			t.Errorf("want %s, %v, %q; got %+v, %v", tc.want, tc.status, tc.text, s.Status, a)
		}
		after := ""
		if tc.want == "retry_after" || tc.want == "paused" {
			after = "2"
		}
		if a["ackfloor.retry_after"] != after {
			t.Errorf("%s: retry after %q", tc.want, a["ackfloor.retry_after"])
		}
	}
}

// A batch is one span with a link to the publisher of each message that has one.
func TestBatch(t *testing.T) {
	r := newRig(t, tracing.Options{Filter: "events.>"})
	around, service := r.provider.Tracer("test").Start(t.Context(), "service")
	messages := []*ackfloor.Message{
		testutil.Message("events.a", nil, testutil.Sequence(1), testutil.Header("traceparent", parent)),
		testutil.Message("events.b", nil, testutil.Sequence(2)),
		testutil.Message("events.c", nil, testutil.Sequence(3), testutil.Header("Traceparent", strings.Replace(parent, "0123", "4567", 1)), testutil.Attempt(2)),
	}
	ctx, end := r.Batch(around, messages)
	within := trace.SpanContextFromContext(ctx)
	end(errors.New("down"))
	s := r.one(t)
	if s.Name != "process TEST" || s.SpanKind != trace.SpanKindConsumer || !s.SpanContext.Equal(within) || !s.Parent.Equal(service.SpanContext()) || s.Status.Description != "down" {
		t.Errorf("%+v", s)
	}
	has(t, s, map[string]string{"messaging.batch.message_count": "3", "messaging.destination.name": "TEST", "messaging.consumer.group.name": "test",
		"messaging.destination.template": "events.>", "messaging.message.id": "", "ackfloor.outcome": "failed"})
	if len(s.Links) != 2 || s.Links[0].SpanContext.TraceID().String() != traced || s.Links[1].SpanContext.TraceID().String() != "4567"+traced[4:] {
		t.Fatalf("links: %+v", s.Links)
	}
	if a := attributes(s.Links[1].Attributes); a["messaging.message.id"] != "TEST:3" || a["ackfloor.attempt"] != "2" {
		t.Errorf("of the second link: %v", a)
	}
	if ctx, end := r.Batch(around, nil); ctx != around || len(r.spans.GetSpans()) != 0 {
		t.Error("a batch of nothing has a span")
	} else {
		end(nil)
	}
}

// What a context has replaces what a message carries of another trace, all of it; the map of headers is not touched.
func TestInject(t *testing.T) {
	r := newRig(t, tracing.Options{})
	ctx, span := r.provider.Tracer("test").Start(t.Context(), "a")
	defer span.End()
	old := nats.Header{"Traceparent": {parent}, "TRACESTATE": {"a=b"}, "baggage": {"tenant=acme"}, "Content-Type": {"text/plain"}}
	m := &nats.Msg{Subject: "events.a", Header: old}
	r.Inject(ctx, m)
	if len(old) != 4 || old["Traceparent"][0] != parent {
		t.Errorf("the headers that were given are now %v", old)
	}
	if len(m.Header) != 2 || !strings.Contains(m.Header["traceparent"][0], span.SpanContext().TraceID().String()) || m.Header["Content-Type"] == nil {
		t.Errorf("it carries %v", m.Header)
	}
	m = &nats.Msg{Subject: "events.a", Header: old}
	r.Inject(t.Context(), m)
	if len(m.Header) != 4 {
		t.Errorf("a context without a span took something away: %v", m.Header)
	}
	m = &nats.Msg{Subject: "events.a"}
	if r.Inject(t.Context(), m); m.Header != nil {
		t.Errorf("a context without a span added %v", m.Header)
	}
	if r.Inject(ctx, m); len(m.Header) != 1 {
		t.Errorf("no headers became %v", m.Header)
	}
	if got := trace.SpanContextFromContext(r.Extract(t.Context(), &ackfloor.Message{Header: m.Header})); got.SpanID() != span.SpanContext().SpanID() {
		t.Errorf("what was injected is extracted as %v", got)
	}
}

// A span of what is published: in the trace of its context, with what the server answered.
func TestPublish(t *testing.T) {
	s := testutil.Server(t)
	s.Stream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}})
	js := s.JetStream(t)
	r := newRig(t, tracing.Options{})
	m := &nats.Msg{Subject: "events.a", Data: []byte("12345"), Header: nats.Header{"Nats-Msg-Id": {"one"}}}
	for i, want := range []map[string]string{
		{"messaging.message.id": "one", "ackfloor.sequence": "1", "ackfloor.duplicate": ""},
		{"messaging.message.id": "one", "ackfloor.sequence": "1", "ackfloor.duplicate": "true"},
		{"messaging.message.id": "EVENTS:2", "ackfloor.sequence": "2", "ackfloor.duplicate": ""},
	} {
		if i == 2 {
			m = &nats.Msg{Subject: "events.a", Data: []byte("12345")}
		}
		ack, err := r.PublishMsg(t.Context(), js, m)
		if err != nil || fmt.Sprint(ack.Sequence) != want["ackfloor.sequence"] {
			t.Fatalf("%+v, %v", ack, err)
		}
		p := r.one(t)
		if p.Name != "publish EVENTS" || p.SpanKind != trace.SpanKindProducer || p.Status.Code != codes.Unset {
			t.Errorf("%+v", p)
		}
		has(t, p, want)
		has(t, p, map[string]string{"messaging.system": "nats", "messaging.operation.type": "send", "messaging.operation.name": "publish",
			"messaging.destination.name": "EVENTS", "messaging.message.body.size": "5", "ackfloor.subject": "events.a"})
		if m.Header["traceparent"] != nil {
			t.Error("the message that was given was changed")
		}
		if i == 1 {
			continue
		}
		stream, err := js.Stream(t.Context(), "EVENTS")
		if err != nil {
			t.Fatal(err)
		}
		stored, err := stream.GetMsg(t.Context(), ack.Sequence)
		if err != nil || !strings.Contains(stored.Header.Get("traceparent"), p.SpanContext.SpanID().String()) {
			t.Errorf("stored: %+v, %v", stored, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := r.PublishMsg(ctx, js, &nats.Msg{Subject: "nobody.listens"}, jetstream.WithRetryAttempts(0)); !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Errorf("published to nobody: %v", err)
	}
	if p := r.one(t); p.Name != "publish" || p.Status.Code != codes.Error || attributes(p.Attributes)["error.type"] != "failed" {
		t.Errorf("%+v", p)
	}
}

// asked is a context that tells when it is asked for a value.
type asked struct {
	context.Context
	times *int
}

func (a asked) Value(key any) any { *a.times++; return a.Context.Value(key) }

// Without a provider a call costs no allocation, and its context is the caller's and is not asked for anything: a Runner makes it only then.
func TestWithoutAProvider(t *testing.T) {
	for name, o := range map[string]tracing.Options{"none is set": {}, "one that does nothing": {TracerProvider: noop.NewTracerProvider()}} {
		tr := tracing.New(o)
		times := 0
		var ctx context.Context = asked{t.Context(), &times}
		var within context.Context
		h := tr.Wrap(ackfloor.HandlerFunc(func(ctx context.Context, _ *ackfloor.Message) error {
			within = ctx
			return nil
		}))
		m := testutil.Message("events.a", nil, testutil.Header("traceparent", parent))
		if n := testing.AllocsPerRun(100, func() { _ = h.Handle(ctx, m) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		if within != ctx || times != 0 {
			t.Errorf("%s: the context is %v, and was asked %d times", name, within, times)
		}
		if b, end := tr.Batch(ctx, []*ackfloor.Message{m}); b != ctx {
			t.Errorf("%s: a batch has a context of its own", name)
		} else {
			end(nil)
		}
	}
}

var setLater bool

// A provider and a propagator that are set for the process afterwards serve what was made before. OpenTelemetry takes that once in a process.
func TestSetLater(t *testing.T) {
	if setLater {
		t.Skip("it was done in this process")
	}
	setLater = true
	tr := tracing.New(tracing.Options{})
	h := tr.Wrap(testutil.Succeed())
	m := testutil.Message("events.a", nil, testutil.Header("traceparent", parent))
	_ = h.Handle(t.Context(), m)
	spans := tracetest.NewInMemoryExporter()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(sdk.NewTracerProvider(sdk.WithSyncer(spans)))
	otel.SetTextMapPropagator(both)
	_ = h.Handle(t.Context(), m)
	if got := spans.GetSpans(); len(got) != 1 || got[0].SpanContext.TraceID().String() != traced {
		t.Errorf("spans: %v", got)
	}
	otel.SetTracerProvider(noop.NewTracerProvider())
	_ = h.Handle(t.Context(), m)
	if got := spans.GetSpans(); len(got) != 1 {
		t.Errorf("behind a provider that does nothing: %v", got)
	}
	otel.SetTracerProvider(before)
}

func BenchmarkWrap(b *testing.B) {
	m := testutil.Message("events.a", nil, testutil.Header("traceparent", parent))
	quiet := sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample()))
	all := sdk.NewTracerProvider(sdk.WithSampler(sdk.AlwaysSample()))
	for _, bm := range []struct {
		name string
		h    ackfloor.Handler
	}{
		{"bare", testutil.Succeed()},
		{"no provider", tracing.New(tracing.Options{}).Wrap(testutil.Succeed())},
		{"not sampled", tracing.New(tracing.Options{TracerProvider: quiet, Propagator: both}).Wrap(testutil.Succeed())},
		{"sampled", tracing.New(tracing.Options{TracerProvider: all, Propagator: both}).Wrap(testutil.Succeed())},
	} {
		b.Run(bm.name, func(b *testing.B) {
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				_ = bm.h.Handle(ctx, m)
			}
		})
	}
}
