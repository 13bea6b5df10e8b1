package tracing

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/ackfloor/ackfloor"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
)

// carrier has a propagator read and write the headers of a message: in lower case, as it names them; and from any case, since NATS keeps names as they are written,
// and servers before 2.14 change traceparent to Traceparent.
type carrier nats.Header

var _ propagation.ValuesGetter = carrier(nil)

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(key string) string {
	if values := c.Values(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Values implements propagation.ValuesGetter. One that is written as it should be goes before all others.
func (c carrier) Values(key string) []string {
	if values := c[strings.ToLower(key)]; len(values) > 0 {
		return values
	}
	for _, k := range slices.Sorted(maps.Keys(c)) { // in an order, so that each attempt reads the same
		if strings.EqualFold(k, key) && len(c[k]) > 0 {
			return c[k]
		}
	}
	return nil
}

// Set implements propagation.TextMapCarrier.
func (c carrier) Set(key, value string) { c[strings.ToLower(key)] = []string{value} }

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string { return slices.Collect(maps.Keys(c)) }

// Extract returns ctx with what the headers of m carry: the span that published it, and baggage. Wrap does so for its handler.
func (t *Tracing) Extract(ctx context.Context, m *ackfloor.Message) context.Context {
	if len(m.Header) == 0 {
		return ctx
	}
	return t.propagator.Extract(ctx, carrier(m.Header))
}

// Inject puts the span and the baggage of ctx into the headers of m, which is about to be published, in place of any that are there. Where ctx has none, m stays
// as it is. The map of headers is copied first, so it may be that of a message that is being handled.
func (t *Tracing) Inject(ctx context.Context, m *nats.Msg) {
	fresh := make(carrier)
	t.propagator.Inject(ctx, fresh)
	if len(fresh) == 0 {
		return
	}
	h := make(nats.Header, len(m.Header)+len(fresh))
	fields := t.propagator.Fields()
	for k, v := range m.Header { // without what belongs to another trace: there may be no new tracestate, say, to replace an old one
		if !slices.ContainsFunc(fields, func(f string) bool { return strings.EqualFold(f, k) }) {
			h[k] = v
		}
	}
	maps.Copy(h, nats.Header(fresh))
	m.Header = h
}
