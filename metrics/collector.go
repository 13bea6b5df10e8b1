package metrics

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/ackfloor/ackfloor/internal/outcome"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// collector reads one Runner.
type collector struct {
	runner  *worker.Runner
	metrics *Metrics
	descs   map[string]*prometheus.Desc // by family
	lag     lag
	drain   span
	limits  snapshot // of the configuration, which does not change
}

// Collector makes the collector of a Runner: what r counts and holds, where its consumer stands, and what Wrap has observed. It may be registered in any
// registry, and beside those of other Runners; but not beside another one of the same stream and consumer. Take it out of the registry when the
// process goes on without r.
func (x *Metrics) Collector(r *worker.Runner) prometheus.Collector {
	s := r.Status()
	c := &collector{runner: r, metrics: x, descs: make(map[string]*prometheus.Desc)}
	constant := prometheus.Labels{"stream_name": s.Stream, "consumer_name": s.Consumer}
	describe := func(f family, labels ...string) {
		c.descs[f.name] = prometheus.NewDesc(prometheus.BuildFQName(namespace, "", f.name), f.help, labels, constant)
	}
	for _, table := range [][]family{counts, states, lags} {
		for _, f := range table {
			if f.label == "" {
				describe(f)
			} else {
				describe(f, f.label)
			}
		}
	}
	for _, f := range observed {
		var labels []string
		if f.label != "" {
			labels = append(labels, f.label)
		}
		if x.kind != nil {
			labels = append(labels, "kind")
		}
		describe(f, labels...)
	}
	describe(buildInfo, "version", "goversion")
	cfg := r.Config()
	c.limits.concurrency, c.limits.handleTimeout, c.limits.drainTimeout = cfg.Concurrency, cfg.HandleTimeout.Seconds(), cfg.DrainTimeout.Seconds()
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector. It asks no server, and may be called by several at once.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	c.metrics.setClock()
	s := c.snapshot()
	c.emit(to, counts, s)
	c.emit(to, states, s)
	if s.standing.known {
		c.emit(to, lags, s)
	}
	if c.metrics.wrapped.Load() {
		for i, of := range c.metrics.series {
			c.observed(to, c.metrics.kinds[i], of)
		}
	}
	to <- prometheus.MustNewConstMetric(c.descs[buildInfo.name], prometheus.GaugeValue, 1, version(), runtime.Version())
}

func (c *collector) snapshot() *snapshot {
	s := new(c.limits)
	now := time.Now()
	s.Status = c.runner.Status()
	s.standing = c.lag.see(s.Cursor, now)
	s.draining = c.drain.lasts(s.State == worker.StateDraining, now).Seconds()
	for _, h := range c.runner.Held() {
		switch {
		case h.Running:
			s.oldestRunning = max(s.oldestRunning, h.For.Seconds())
		case !h.Kept:
			s.oldestWaiting = max(s.oldestWaiting, h.For.Seconds())
		}
	}
	return s
}

func (c *collector) emit(to chan<- prometheus.Metric, table []family, s *snapshot) {
	for _, f := range table {
		one := func(v float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(c.descs[f.name], f.valueType(), v, labels...)
		}
		if f.read != nil {
			one(f.read(s))
			continue
		}
		f.each(s, func(value string, v float64) { one(v, value) })
	}
}

// observed emits what was observed of one kind of message. An outcome that there was not yet has no series, but for the good one.
func (c *collector) observed(to chan<- prometheus.Metric, kind string, of *series) {
	one := func(f family, h *dto.Histogram, labels ...string) {
		if c.metrics.kind != nil {
			labels = append(labels, kind)
		}
		to <- reading{c.descs[f.name], labels, h}
	}
	for o, h := range of.took {
		if took := h.read(); outcome.Outcome(o) == outcome.OK || took.GetSampleCount() > 0 {
			one(observed[0], took, outcome.Names[o])
		}
	}
	one(observed[1], of.age.read())
	one(observed[2], of.readAttempts())
}

// version is that of the library in this program.
var version = sync.OnceValue(func() string {
	const path = "github.com/ackfloor/ackfloor"
	b, is := debug.ReadBuildInfo()
	if !is {
		return "unknown"
	}
	for _, m := range append(b.Deps, &b.Main) {
		if m.Path != path {
			continue
		}
		if m.Replace != nil && m.Replace.Version != "" {
			return m.Replace.Version
		}
		if m.Version != "" {
			return m.Version
		}
	}
	return "unknown"
})
