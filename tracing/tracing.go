package tracing

import (
	"reflect"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

const scope = "github.com/ackfloor/ackfloor/tracing"

// Options are what a Tracing can be told. The zero value uses what is set for the whole process.
type Options struct {
	TracerProvider trace.TracerProvider          // nil: the one of otel.SetTracerProvider, also when that is called later
	Propagator     propagation.TextMapPropagator // nil: the one of otel.SetTextMapPropagator, also when that is called later
	Filter         string                        // the consumer's filter, when it has one: what spans have as the destination's template
}

// Tracing makes spans. It may serve any number of Runners, and be used from any goroutine. Make one with New.
type Tracing struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	filter     string
	settles    settles
	given      bool // a provider was given: it need not be looked for
	never      bool // and it is one that does nothing
}

// New makes a Tracing.
func New(o Options) *Tracing {
	t := &Tracing{propagator: o.Propagator, filter: o.Filter, given: o.TracerProvider != nil}
	provider := o.TracerProvider
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	if t.propagator == nil {
		t.propagator = otel.GetTextMapPropagator()
	}
	t.never = t.given && isNoop(provider)
	t.tracer = provider.Tracer(scope)
	return t
}

// unset is the provider that OpenTelemetry has until one is set: it stands in for that one, and does nothing until then. It is nil where one was set
// before this package's variables were.
var unset = func() trace.TracerProvider {
	p := otel.GetTracerProvider()
	if t := reflect.TypeOf(p); t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "go.opentelemetry.io/otel/internal/global" {
		return p
	}
	return nil
}()

func isNoop(p trace.TracerProvider) bool {
	_, is := p.(noop.TracerProvider)
	return is
}

// off tells whether there is nobody to make spans for. It costs nanoseconds, and is asked in each call, since a provider may be set at any time.
func (t *Tracing) off() bool {
	if t.given {
		return t.never
	}
	p := otel.GetTracerProvider()
	return p == unset || isNoop(p)
}
