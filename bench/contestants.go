package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// contestant is one way to consume. start begins, calls handle for every message and acknowledges it; stop ends it and returns when
// nothing of it is left.
type contestant struct {
	name  string
	what  string // one line for the reader of the table
	share int    // it gets one message of so many: for what is too slow to have all of them
	start func(ctx context.Context, t target, handle func(data []byte)) (stop func() error, err error)

	build string // the bench binary that runs it, where that is another one than this: -against
	newer bool   // another build may not know it: not run with -against
}

// label is its name in the tables.
func (c contestant) label() string {
	if c.build != "" {
		return c.name + "*"
	}
	return c.name
}

// against adds the ackfloor contestants once more, as another build of this command has them.
func against(who []contestant, build string) []contestant {
	var out []contestant
	for _, c := range who {
		out = append(out, c)
		if strings.HasPrefix(c.name, "ackfloor") && !c.newer {
			c.build = build
			out = append(out, c)
		}
	}
	return out
}

// target is where a contestant works. The durable exists already.
type target struct{ url, stream, consumer, domain string }

// jetStream is the target's JetStream.
func (t target) jetStream(nc *nats.Conn) (jetstream.JetStream, error) {
	if t.domain != "" {
		return jetstream.NewWithDomain(nc, t.domain)
	}
	return jetstream.New(nc)
}

const slots = 16 // worker.Config's default concurrency, and that of consume-slots

var contestants = []contestant{
	{name: "consume", what: "nats.go jetstream Consume, default options, plain Ack in the callback", share: 1, start: startConsume},
	{name: "consume-slots", what: fmt.Sprintf("Consume, handed over a channel to %d goroutines, plain Ack", slots), share: 1, start: startConsumeSlots(slots)},
	{name: "ackfloor-confirm", what: "worker.Runner, defaults: every ack confirmed, dead letters and records on", share: 1, start: startAckfloor(worker.Config{})},
	{name: "ackfloor-off", what: "worker.Runner, WORKER_DEAD_LETTER=off, WORKER_RECORDS=off", share: 1, newer: true,
		start: startAckfloor(worker.Config{DeadLetter: "off", Records: "off"})},
	{name: "ackfloor-send", what: "worker.Runner, WORKER_ACK=send: plain acks", share: 1, start: startAckfloor(worker.Config{Ack: worker.AckSend})},
	{name: "ackfloor-keyed", what: "worker.Runner, Config.Key: order by key, 10,000 keys", share: 1, newer: true, start: startAckfloor(worker.Config{Key: tenThousand()})},
	{name: "ackfloor-batch", what: "worker.NewBatch, batches of up to 250, two slots", share: 1, newer: true, start: startBatched},
	{name: "watermill", what: fmt.Sprintf("watermill-nats, %d handlers of a Router on the durable; its default: acks confirmed one by one", slots), share: 10, start: startWatermill(false)},
	{name: "watermill-async", what: "the same with AckAsync: plain acks", share: 2, start: startWatermill(true)},
	{name: "doubleack", what: "Consume, DoubleAck in the callback: one round trip a message", share: 10, start: startDoubleAck},
}

func contestantNamed(name string) (contestant, error) {
	for _, c := range contestants {
		if c.name == name {
			return c, nil
		}
	}
	return contestant{}, fmt.Errorf("there is no contestant %q", name)
}

func startConsume(ctx context.Context, t target, handle func([]byte)) (func() error, error) {
	return consume(ctx, t, func(m jetstream.Msg) error {
		handle(m.Data())
		return m.Ack()
	})
}

func startDoubleAck(ctx context.Context, t target, handle func([]byte)) (func() error, error) {
	return consume(ctx, t, func(m jetstream.Msg) error {
		handle(m.Data())
		return m.DoubleAck(ctx)
	})
}

func startConsumeSlots(n int) func(context.Context, target, func([]byte)) (func() error, error) {
	return func(ctx context.Context, t target, handle func([]byte)) (func() error, error) {
		var failed firstError
		todo := make(chan jetstream.Msg, n)
		var running sync.WaitGroup
		for range n {
			running.Go(func() {
				for m := range todo {
					handle(m.Data())
					failed.set(m.Ack())
				}
			})
		}
		stop, err := consume(ctx, t, func(m jetstream.Msg) error {
			todo <- m
			return nil
		})
		if err != nil {
			close(todo)
			return nil, err
		}
		return func() error {
			err := stop()
			close(todo)
			running.Wait()
			return errors.Join(err, failed.get())
		}, nil
	}
}

// consume is Consume as its documentation shows it, on a connection of its own with default options.
func consume(ctx context.Context, t target, each func(jetstream.Msg) error) (func() error, error) {
	nc, err := nats.Connect(t.url)
	if err != nil {
		return nil, err
	}
	js, err := t.jetStream(nc)
	if err != nil {
		return nil, err
	}
	durable, err := js.Consumer(ctx, t.stream, t.consumer)
	if err != nil {
		return nil, err
	}
	var failed firstError
	running, err := durable.Consume(func(m jetstream.Msg) { failed.set(each(m)) })
	if err != nil {
		return nil, err
	}
	return func() error {
		running.Drain()
		<-running.Closed()
		nc.Close()
		return failed.get()
	}, nil
}

// startAckfloor runs a worker with the defaults of cfg. It makes the stream of the dead letters and the bucket of the records itself.
func startAckfloor(cfg worker.Config) func(context.Context, target, func([]byte)) (func() error, error) {
	return func(ctx context.Context, t target, handle func([]byte)) (func() error, error) {
		cfg := cfg
		cfg.Logger = zap.NewNop()
		_, stop, err := startWorker(ctx, t, cfg, ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			handle(m.Data)
			return nil
		}))
		return stop, err
	}
}

const letterBytes = 64 << 20 // for the dead letters: reserved by the server when the stream is made

// startWorker starts a worker on a connection of its own, and returns when it is bound.
func startWorker(ctx context.Context, t target, cfg worker.Config, h ackfloor.Handler) (*worker.Runner, func() error, error) {
	return startRunner(ctx, t, cfg, func(nc *nats.Conn, c worker.Config) (*worker.Runner, error) { return worker.New(nc, c, h) })
}

// startRunner is startWorker for a Runner of any kind.
func startRunner(ctx context.Context, t target, cfg worker.Config, build func(*nats.Conn, worker.Config) (*worker.Runner, error)) (*worker.Runner, func() error, error) {
	nc, err := worker.Connect(ctx, worker.Connection{URL: t.url, Domain: t.domain})
	if err != nil {
		return nil, nil, err
	}
	cfg.Stream, cfg.Consumer, cfg.DeadLetterBytes, cfg.Connection.Domain = t.stream, t.consumer, letterBytes, t.domain
	r, err := build(nc, cfg)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop := func() error {
		cancel()
		err := <-ended
		nc.Close()
		return err
	}
	for r.Status().State < worker.StateWorking {
		select {
		case err := <-ended:
			ended <- err
			return nil, nil, errors.Join(errors.New("it ended before it worked"), stop())
		case <-time.After(time.Millisecond):
		}
	}
	return r, stop, nil
}

// firstError keeps the first of the errors that it is given. A nil costs nothing.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (f *firstError) set(err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *firstError) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
