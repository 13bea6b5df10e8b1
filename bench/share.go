package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// Processes that share the work, for the modes growth, scaling, runners and held: a child says "working" when it is bound, works until it is told to stop, and the
// parent has the server tell when everything is settled.

const modeShare = "share"

// share is what such a child is told beyond an order.
type share struct {
	slots   int
	work    time.Duration // of a handler: it sleeps
	parts   int           // partitions, each with a durable of its own; 0 for none
	runners int           // of the same durable in one process; 0 for one
	pending int           // pcgroups: max_ack_pending of each partition
	ackWait time.Duration // held: the consumer's
}

func (s share) args() []string {
	return []string{"-slots", strconv.Itoa(s.slots), "-work", s.work.String(), "-parts", strconv.Itoa(s.parts), "-runners", strconv.Itoa(s.runners),
		"-pending", strconv.Itoa(s.pending), "-ackwait", s.ackWait.String()}
}

func (s *share) flags(f *flag.FlagSet) {
	f.IntVar(&s.slots, "slots", 0, "share: handlers at once")
	f.DurationVar(&s.work, "work", 0, "share: how long a handler sleeps")
	f.IntVar(&s.parts, "parts", 0, "share: partitions")
	f.IntVar(&s.runners, "runners", 0, "share: workers in the process")
	f.IntVar(&s.pending, "pending", 0, "share: max_ack_pending of each partition of pcgroups")
	f.DurationVar(&s.ackWait, "ackwait", 0, "share: ack_wait of the durable")
}

// sharer starts one way to work, and returns when it is bound.
type sharer func(ctx context.Context, o order, handle func([]byte)) (stop func() error, err error)

var sharers = map[string]sharer{
	"consume": func(ctx context.Context, o order, handle func([]byte)) (func() error, error) {
		return startConsume(ctx, o.target, handle)
	},
	"consume-slots": func(ctx context.Context, o order, handle func([]byte)) (func() error, error) {
		return startConsumeSlots(o.share.slots)(ctx, o.target, handle)
	},
	"consume-held": consumeHeld,
	"doubleack": func(ctx context.Context, o order, handle func([]byte)) (func() error, error) {
		return startDoubleAck(ctx, o.target, handle)
	},
	"ackfloor":            startSharing(worker.Config{}),
	"ackfloor-keyed":      startSharing(worker.Config{Key: ackfloor.KeyBySubject(-1)}),
	"ackfloor-partitions": startSharing(worker.Config{Key: ackfloor.KeyBySubject(-1)}),
	"pcgroups":            startPartitioned,
}

// startSharing starts as many Runners as there are to be in the process, on one connection.
func startSharing(cfg worker.Config) sharer {
	return func(ctx context.Context, o order, handle func([]byte)) (func() error, error) {
		cfg := cfg
		cfg.Logger, cfg.Concurrency, cfg.AckWait, cfg.MaxAckPending = zap.NewNop(), o.share.slots, o.share.ackWait, o.share.pending
		cfg.Stream, cfg.Consumer, cfg.DeadLetterBytes = o.target.stream, o.target.consumer, letterBytes
		cfgs := []worker.Config{cfg}
		for i := 1; i < o.share.runners; i++ {
			more := cfg
			more.Consumer = fmt.Sprintf("%s-%d", cfg.Consumer, i)
			cfgs = append(cfgs, more)
		}
		if o.share.parts > 0 {
			var err error
			cfg.Filter = []string{"*." + o.target.stream + ".*"}
			if cfgs, err = worker.Partitions(cfg, o.share.parts); err != nil {
				return nil, err
			}
		}
		return runTogether(ctx, o.target, cfgs, ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			handle(m.Data)
			return nil
		}))
	}
}

// runTogether runs a worker of each configuration on one connection, and returns when all work.
func runTogether(ctx context.Context, t target, cfgs []worker.Config, h ackfloor.Handler) (func() error, error) {
	nc, err := worker.Connect(ctx, worker.Connection{URL: t.url, Domain: t.domain})
	if err != nil {
		return nil, err
	}
	var runners []*worker.Runner
	for _, cfg := range cfgs {
		cfg.Connection.Domain = t.domain
		r, err := worker.New(nc, cfg, h)
		if err != nil {
			nc.Close()
			return nil, err
		}
		runners = append(runners, r)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.RunAll(ctx, runners...) }()
	stop := func() error {
		cancel()
		err := <-ended
		nc.Close()
		return err
	}
	for _, r := range runners {
		for r.Status().State < worker.StateWorking {
			select {
			case err := <-ended:
				ended <- err
				return nil, errors.Join(errors.New("it ended before it worked"), stop())
			case <-time.After(time.Millisecond):
			}
		}
	}
	return stop, nil
}

// startPartitioned joins a consumer group as all of its members: see joinGroup. The group has the durable's name.
func startPartitioned(ctx context.Context, o order, handle func([]byte)) (func() error, error) {
	nc, err := nats.Connect(o.target.url)
	if err != nil {
		return nil, err
	}
	var failed firstError
	g, err := joinGroup(ctx, nc, o.target.stream, o.target.consumer, memberNames(o.share.parts), 30*time.Second, o.share.pending, func(m jetstream.Msg) {
		handle(m.Data())
		failed.set(m.Ack())
	})
	if err != nil {
		nc.Close()
		return nil, err
	}
	return func() error {
		g.leave(ctx)
		nc.Close()
		return failed.get()
	}, nil
}

// memberNames are the members of a group that has one for each partition.
func memberNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("m%02d", i)
	}
	return names
}

// shareWork is the child's side. It ends without a drain: everything is settled, and its durable is deleted next. What a stop takes is measured elsewhere.
func shareWork(ctx context.Context, o order, say func(string), await func(string) error) (report, error) {
	start := sharers[o.name]
	if start == nil {
		return report{}, fmt.Errorf("there is no way %q to share work", o.name)
	}
	var handled, busy atomic.Int64
	handle := func([]byte) { handled.Add(1) }
	if o.share.work > 0 {
		handle = func([]byte) {
			began := time.Now()
			time.Sleep(o.share.work)
			busy.Add(int64(time.Since(began)))
			handled.Add(1)
		}
	}
	if _, err := start(ctx, o, handle); err != nil {
		return report{}, fmt.Errorf("%s: %w", o.name, err)
	}
	before, workBefore := used(), workOf("self")
	say("working")
	if err := await("stop"); err != nil {
		return report{}, err
	}
	rep := report{Usage: used().since(before), Work: workOf("self").since(workBefore), PeakRSS: peakRSS(), Goroutines: runtime.NumGoroutine()}
	rep.Samples = []sample{{After: handled.Load(), RSS: rss(), Live: liveHeap()}}
	rep.Handled, rep.Busy = int(handled.Load()), time.Duration(busy.Load())
	return rep, nil
}
