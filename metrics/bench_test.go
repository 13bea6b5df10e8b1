package metrics_test

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/metrics"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

func kinds(m *ackfloor.Message) string { return m.Subject[:6] }

func newMetrics(t testing.TB, o metrics.Options) *metrics.Metrics {
	t.Helper()
	x, err := metrics.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// What Wrap adds to a call.
func BenchmarkWrap(b *testing.B) {
	m := testutil.Message("events.order", nil)
	for name, o := range map[string]metrics.Options{"plain": {}, "kinds": {Kind: kinds, Kinds: []string{"events"}}} {
		h := newMetrics(b, o).Wrap(testutil.Succeed())
		b.Run(name, func(b *testing.B) {
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				_ = h.Handle(ctx, m)
			}
		})
		b.Run(name+", parallel", func(b *testing.B) {
			b.RunParallel(func(p *testing.PB) {
				for ctx := context.Background(); p.Next(); {
					_ = h.Handle(ctx, m)
				}
			})
		})
	}
}

func BenchmarkCollect(b *testing.B) {
	s := testutil.Server(b)
	s.Events(b, 0)
	x := newMetrics(b, metrics.Options{})
	r, err := worker.New(s.Conn(b), worker.Config{Stream: "EVENTS", Consumer: "a", Logger: zap.NewNop()}, x.Wrap(testutil.Succeed()))
	if err != nil {
		b.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(x.Collector(r))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := reg.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}

const block = 500 // messages that are handled with metrics, or without them

// blocks takes the times of a handler's blocks of calls, in turn without and with metrics: A B B A, so that what drifts does not favour either.
type blocks struct {
	b         *testing.B
	who       [2]ackfloor.Handler
	n         int64
	handled   atomic.Int64
	all       chan struct{}
	last, cpu time.Duration // at the block's begin
	took      [2][]float64  // ns a message
	used      [2][]float64  // CPU time of this process, ns a message
}

func side(i int64) int { return bits.OnesCount64(uint64(i)) % 2 }

func (x *blocks) Handle(ctx context.Context, m *ackfloor.Message) error {
	i := x.handled.Add(1) - 1
	if i%block == 0 {
		x.turn(i / block)
	}
	if i == x.n-1 {
		close(x.all)
	}
	return x.who[side(i/block)].Handle(ctx, m)
}

// turn ends a block. The first ones of a worker are its start.
func (x *blocks) turn(i int64) {
	now, cpu := time.Duration(time.Now().UnixNano()), usage(x.b)
	if i > 20 {
		who := side(i - 1)
		x.took[who] = append(x.took[who], float64(now-x.last)/block)
		x.used[who] = append(x.used[who], float64(cpu-x.cpu)/block)
	}
	x.last, x.cpu = now, cpu
}

// run has a worker take all of the stream.
func (x *blocks) run(s *testutil.P, js jetstream.JetStream, name string) {
	b := x.b
	if _, err := js.CreateConsumer(b.Context(), "EVENTS", jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		b.Fatal(err)
	}
	nc, err := nats.Connect(s.URL())
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	full := newMetrics(b, metrics.Options{Kind: kinds, Kinds: []string{"events"}})
	x.who = [2]ackfloor.Handler{testutil.Succeed(), full.Wrap(testutil.Succeed())}
	r, err := worker.New(nc, worker.Config{Stream: "EVENTS", Consumer: name, Logger: zap.NewNop()}, x)
	if err != nil {
		b.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(full.Collector(r))
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	for done := false; !done; {
		select {
		case <-x.all:
			done = true
		case <-time.After(time.Second):
			if _, err := reg.Gather(); err != nil {
				b.Error(err)
			}
		}
	}
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	if err := js.DeleteConsumer(b.Context(), "EVENTS", name); err != nil {
		b.Fatal(err)
	}
}

func usage(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Error(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// BenchmarkInTurn compares calls without metrics to calls with everything on, kinds and a scrape every second, on a handler that does nothing, in a worker
// on a server of its own. An operation is a worker that takes the whole stream; -benchtime 10x for figures. What is compared are medians of the blocks.
func BenchmarkInTurn(b *testing.B) {
	n := 200_000
	if b.N == 1 {
		n = 100 * block // the look whether it can run at all
	}
	s := testutil.ServerProcess(b)
	js := s.JetStream(b)
	s.Events(b, n)
	var took, used [2][]float64
	b.ResetTimer()
	for i := range b.N {
		x := &blocks{b: b, n: int64(n), all: make(chan struct{})}
		x.run(s, js, fmt.Sprintf("turn-%d", i))
		for who := range 2 {
			took[who], used[who] = append(took[who], x.took[who]...), append(used[who], x.used[who]...)
		}
	}
	b.ReportMetric(1e9/median(took[0]), "msgs/s-without")
	b.ReportMetric(median(took[0])/median(took[1]), "x-msgs/s")
	b.ReportMetric(median(used[1])/median(used[0]), "x-cpu")
	b.ReportMetric(median(used[1])-median(used[0]), "ns-cpu-more")
}
