package metrics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/internal/outcome"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/prometheus/client_golang/prometheus"
)

// Options are what a Metrics can be told. The zero value is good for most.
type Options struct {
	// Buckets are the upper bounds of the classic buckets of ackfloor_handle_duration_seconds, in seconds, ascending. By default from 0.1 ms to 5 min. The native
	// histogram beside needs none.
	Buckets []float64

	// AgeBuckets are those of ackfloor_message_age_seconds. By default from 1 ms to 1 week.
	AgeBuckets []float64

	// Kind tells the kind of a message, such as a part of its subject; it becomes the label kind of what Wrap observes. It is called once a call, from several
	// goroutines at once. What is not in Kinds becomes "other". Without it there is no such label.
	Kind  func(m *ackfloor.Message) string
	Kinds []string // the kinds that there are, MaxKinds at the most
}

// MaxKinds is how many kinds of messages are told apart at the most: each has histograms of its own.
const MaxKinds = 100

// fewKinds are compared one by one, which is quicker than a look into a map.
const fewKinds = 8

// other is the kind of a message whose kind is not in the list.
const other = "other"

var (
	defaultBuckets    = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	defaultAgeBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600}
)

// Metrics observes the calls of one Runner's handler, and makes the collector of that Runner. Make one with New, for each Runner.
type Metrics struct {
	kind    func(m *ackfloor.Message) string
	kinds   []string       // the last is other; "" alone where kinds are not told apart
	series  []*series      // by their places
	places  map[string]int // of the kinds, where there are many
	base    time.Time
	wall    atomic.Int64 // the wall clock at base, in Unix nanoseconds, as of the last scrape: it may have been set since
	wrapped atomic.Bool
}

// New makes a Metrics. The error tells all that is wrong with o.
func New(o Options) (*Metrics, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Buckets == nil {
		o.Buckets = defaultBuckets
	}
	if o.AgeBuckets == nil {
		o.AgeBuckets = defaultAgeBuckets
	}
	x := &Metrics{kind: o.Kind, kinds: []string{""}, places: make(map[string]int), base: time.Now()}
	if o.Kind != nil {
		x.kinds = slices.Compact(slices.Sorted(slices.Values(o.Kinds)))
		x.kinds = append(slices.DeleteFunc(x.kinds, func(k string) bool { return k == other }), other)
	}
	took, age := newScale(o.Buckets), newScale(o.AgeBuckets)
	for i, kind := range x.kinds {
		x.series = append(x.series, newSeries(took, age))
		x.places[kind] = i
	}
	x.setClock()
	return x, nil
}

func (o Options) check() error {
	var errs []error
	for name, buckets := range map[string][]float64{"Buckets": o.Buckets, "AgeBuckets": o.AgeBuckets} {
		for i, b := range buckets {
			if !(b > 0 && b < maxSeconds) || i > 0 && b <= buckets[i-1] {
				errs = append(errs, fmt.Errorf("metrics: %s: %v in place %d: they take seconds above 0, ascending, below %g", name, b, i, float64(maxSeconds)))
			}
		}
	}
	if (o.Kind == nil) != (len(o.Kinds) == 0) {
		errs = append(errs, errors.New("metrics: Kind and Kinds go together: the function, and the kinds that it tells"))
	}
	if len(o.Kinds) > MaxKinds {
		errs = append(errs, fmt.Errorf("metrics: Kinds has %d: it takes up to %d", len(o.Kinds), MaxKinds))
	}
	for i, k := range o.Kinds {
		if k == "" || !utf8.ValidString(k) {
			errs = append(errs, fmt.Errorf("metrics: Kinds has %q in place %d: it takes text", k, i))
		}
	}
	return errors.Join(errs...)
}

// setClock follows a wall clock that was set. Between two scrapes ages are counted by the monotonic clock, which is cheaper to read.
func (x *Metrics) setClock() {
	now := time.Now()
	x.wall.Store(now.UnixNano() - int64(now.Sub(x.base)))
}

// Wrap is an ackfloor.Middleware that observes each call of the handler: its duration, its outcome, the attempt, and how old its message was.
// What is inside of it is in the duration. Waiting at a worker.Gate is not.
func (x *Metrics) Wrap(h ackfloor.Handler) ackfloor.Handler {
	x.wrapped.Store(true)
	return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error { return x.handle(ctx, m, h) })
}

func (x *Metrics) handle(ctx context.Context, m *ackfloor.Message, h ackfloor.Handler) error {
	s := x.seriesOf(m)
	began := time.Since(x.base)
	s.arrived(m, x.wall.Load()+int64(began))
	out := outcome.Panicked // unless it returns
	defer func() { s.took[out].observe(time.Since(x.base) - began) }()
	err := h.Handle(ctx, m)
	out = outcome.Of(ctx, err)
	return err
}

func (x *Metrics) seriesOf(m *ackfloor.Message) *series {
	last := len(x.series) - 1
	if x.kind == nil {
		return x.series[last]
	}
	kind := x.kind(m)
	if last > fewKinds {
		if i, is := x.places[kind]; is {
			return x.series[i]
		}
		return x.series[last]
	}
	for i, k := range x.kinds[:last] {
		if k == kind {
			return x.series[i]
		}
	}
	return x.series[last]
}

// Part is a worker.Part that registers the Runner's collector with reg, and takes it out when its context ends. A collector that can't be registered, since
// another of the same stream and consumer is there, is an error, which ends the process.
func (x *Metrics) Part(reg prometheus.Registerer) worker.Part {
	return func(ctx context.Context, r *worker.Runner) error {
		c := x.Collector(r)
		if err := reg.Register(c); err != nil {
			return fmt.Errorf("metrics: register: %w", err)
		}
		<-ctx.Done()
		reg.Unregister(c)
		return nil
	}
}
