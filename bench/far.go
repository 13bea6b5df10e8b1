package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
	"github.com/nats-io/nats.go/jetstream"
)

// site is servers and where on them the stream and the worker are.
type site struct {
	name     string
	build    func(binary, dir string) (servers, error)
	replicas int
	stream   int    // the server that the publisher is connected to
	worker   int    // the server that the worker is connected to
	domain   string // of the stream, as the worker has to say
	copied   bool   // the worker is on a stream of its own server that sources the other
	cluster  string // of the stream
}

func clusterBy(n int) func(string, string) (servers, error) {
	return func(binary, dir string) (servers, error) { return clusterOf(binary, dir, n) }
}

var replicaSites = []site{
	{name: "one server, R1", build: clusterBy(1), replicas: 1},
	{name: "three servers, R1", build: clusterBy(3), replicas: 1},
	{name: "three servers, R3", build: clusterBy(3), replicas: 3},
}

var farSites = []site{
	{name: "hub, worker at the hub", build: leafOf, replicas: 1, domain: "hub"},
	{name: "hub, worker at the leaf node", build: leafOf, replicas: 1, worker: 1, domain: "hub"},
	{name: "leaf node, worker there on a copy of the hub's stream", build: leafOf, replicas: 1, worker: 1, domain: "hub", copied: true},
	{name: "supercluster, worker in the stream's cluster", build: superclusterOf, replicas: 1, cluster: "east"},
	{name: "supercluster, worker in the other cluster", build: superclusterOf, replicas: 1, worker: 1, cluster: "east"},
}

func replicas(ctx context.Context, _ *bed, opt options, t *table) error {
	t.title("Replicas: a worker of %d slots and nats.go's Consume, servers as processes on this one machine, %d bytes, handlers that do nothing", slots, bodySize)
	return sites(ctx, opt, t, replicaSites, "scaling-replicas", "Replicas")
}

func farServers(ctx context.Context, _ *bed, opt options, t *table) error {
	t.title("Leaf nodes and gateways: a worker at the stream's server, and at the next one, on this one machine")
	return sites(ctx, opt, t, farSites, "scaling-far", "Leaf nodes and gateways")
}

// sites measures rate and latency at each site.
func sites(ctx context.Context, opt options, t *table, all []site, chart, title string) error {
	t.row("", "who", "msgs/s", "CPU µs/msg", "servers CPU µs/msg", "p50 µs", "p99 µs")
	var bars []figures.Bar
	var faults []error
	for _, s := range last(opt, all) {
		for _, name := range last(opt, []string{"consume", "ackfloor"}) {
			f, err := s.measure(ctx, opt, name)
			if err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", s.name, err))
				break
			}
			per := func(d time.Duration) string {
				return fmt.Sprintf("%.1f", float64(d.Microseconds())/float64(f.n))
			}
			t.row(s.name, name, fmt.Sprintf("%.0f", f.rate()), per(f.cpu), per(f.server.CPU), fmt.Sprint(f.latency.percentile(50).Microseconds()), fmt.Sprint(f.latency.percentile(99).Microseconds()))
			opt.progress("scaling: %s: %s: %.0f msgs/s, p50 %v", s.name, name, f.rate(), f.latency.percentile(50))
			bars = append(bars, figures.Bar{Name: s.name + ": " + name, Y: f.rate()})
		}
	}
	t.flush()
	t.chart(figures.Chart{Name: chart, Title: title, Y: figures.Axis{Label: "messages a second"}, Bars: bars})
	return errors.Join(faults...)
}

// siteFigures are those of one way to work at one site.
type siteFigures struct {
	shared
	latency run
}

// measure starts the servers, measures, and takes them away.
func (s site) measure(ctx context.Context, opt options, name string) (siteFigures, error) {
	const stream = "FAR"
	all, err := s.build(opt.server, opt.dir)
	defer func() { all.remove() }()
	if err != nil {
		return siteFigures{}, err
	}
	if err := all.startAll(ctx, s.replicas); err != nil {
		return siteFigures{}, err
	}
	b, err := newBed(all[s.stream].url(), all[s.stream].pid())
	if err != nil {
		return siteFigures{}, err
	}
	defer b.nc.Close()
	b.replicas, b.cluster, b.others = s.replicas, s.cluster, all.work
	n := lasts(opt.lasting, 60_000, 1000, 150_000)
	if err := errors.Join(b.stream(ctx, stream), b.fill(ctx, stream, n, bodySize)); err != nil {
		return siteFigures{}, err
	}
	near, err := newBed(all[s.worker].url(), all[s.worker].pid())
	if err != nil {
		return siteFigures{}, err
	}
	defer near.nc.Close()
	near.others = all.work
	if err := near.reach(ctx, s.domain, stream); err != nil {
		return siteFigures{}, err
	}
	to := target{url: all[s.worker].url(), domain: s.domain}
	if s.copied {
		to.domain = ""
		if err := near.copyOf(ctx, stream, n); err != nil {
			return siteFigures{}, err
		}
	} else {
		near = b // where the worker's stream is
	}
	f, err := near.onDurable(ctx, stream, 0, n, 1000, order{name: name, target: to, share: share{slots: slots}})
	if err != nil {
		return siteFigures{}, err
	}
	r, err := latencyAt(ctx, b, near, to, map[string]string{"consume": "consume", "ackfloor": "ackfloor-confirm"}[name], opt.lasting)
	return siteFigures{f, r}, err
}

// reach waits until a stream can be seen from here: servers that have just been started may not be joined yet.
func (b *bed) reach(ctx context.Context, domain, stream string) error {
	js, err := target{domain: domain}.jetStream(b.nc)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, settledLimit)
	defer cancel()
	if err := again(limited, time.Second, func(ctx context.Context) error {
		_, err := js.Stream(ctx, stream)
		return err
	}); err != nil {
		return fmt.Errorf("the stream can't be seen from the worker's server: %w", err)
	}
	return nil
}

// copyOf makes a stream here that sources the hub's of the same name, and waits until n messages are in it.
func (b *bed) copyOf(ctx context.Context, stream string, n int) error {
	if err := b.streamOf(ctx, jetstream.StreamConfig{Name: stream, Sources: []*jetstream.StreamSource{{Name: stream, Domain: "hub"}}}); err != nil {
		return err
	}
	return b.stored(ctx, stream, n)
}

// latencyAt measures latencies for a while, from a publisher at one server to a worker at another.
func latencyAt(ctx context.Context, b, near *bed, to target, name string, d time.Duration) (run, error) {
	const stream = "FAR-LATENCY"
	if err := b.stream(ctx, stream); err != nil {
		return run{}, err
	}
	if near != b {
		if err := near.copyOf(ctx, stream, 0); err != nil {
			return run{}, err
		}
	}
	durable, err := near.durable(ctx, stream, name, 0)
	if err != nil {
		return run{}, err
	}
	to.stream, to.consumer = stream, durable.CachedInfo().Name
	n := max(1, int(d.Seconds()*latencyRate))
	o := order{mode: modeLatency, name: name, n: n + latencyWarmUp, skip: latencyWarmUp, target: to}
	return near.turn(ctx, o, durable, func() error { return b.publishEvenly(ctx, stream, o.n) })
}
