package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil/fault"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// The child's side of the mode faults: a worker as one would run it as a service. It works until SIGTERM, then it stops as its library's documentation says.

const faultProgram = "faults"

// programs are what the binary runs as a child of package fault.
func programs() fault.Programs { return fault.Programs{faultProgram: faultMain} }

// faultJob is what a worker is told, by its environment.
type faultJob struct {
	worker string
	target target
	slots  int
	work   time.Duration // of a handler, for each message: it sleeps
	wait   time.Duration // ack_wait of the durable
	index  int           // of the process in its crew: pcgroups joins as other members in each
}

func (j faultJob) env() []string {
	return []string{"BENCH_WORKER=" + j.worker, "BENCH_URL=" + j.target.url, "BENCH_STREAM=" + j.target.stream, "BENCH_CONSUMER=" + j.target.consumer,
		"BENCH_SLOTS=" + strconv.Itoa(j.slots), "BENCH_WORK=" + j.work.String(), "BENCH_ACK_WAIT=" + j.wait.String(), "BENCH_INDEX=" + strconv.Itoa(j.index)}
}

func faultJobOfEnv() (j faultJob, err error) {
	number := func(name string) int {
		n, e := strconv.Atoi(os.Getenv(name))
		err = errors.Join(err, e)
		return n
	}
	duration := func(name string) time.Duration {
		d, e := time.ParseDuration(os.Getenv(name))
		err = errors.Join(err, e)
		return d
	}
	return faultJob{worker: os.Getenv("BENCH_WORKER"), target: target{url: os.Getenv("BENCH_URL"), stream: os.Getenv("BENCH_STREAM"), consumer: os.Getenv("BENCH_CONSUMER")},
		slots: number("BENCH_SLOTS"), work: duration("BENCH_WORK"), wait: duration("BENCH_ACK_WAIT"), index: number("BENCH_INDEX")}, err
}

// faultMain is the whole of the child.
func faultMain() {
	j, err := faultJobOfEnv()
	exit(err)
	journal := fault.ChildJournal()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	// A handler is called through the journal, whoever calls it: the message's number stands for its sequence.
	h := journal.Wrap(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
		time.Sleep(j.work)
		return nil
	}))
	handle := func(body []byte) {
		n, err := strconv.ParseUint(string(body), 10, 64)
		exit(err)
		exit(h.Handle(context.Background(), &ackfloor.Message{Stream: j.target.stream, Sequence: n, Data: body}))
	}
	w, err := faultWorkerNamed(j.worker)
	exit(err)
	exit(w.run(ctx, j, handle))
}

// connectForever is a connection as a service by hand has it.
func connectForever(url string) (*nats.Conn, error) {
	return nats.Connect(url, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectWait(50*time.Millisecond))
}

// again tries until it succeeds or ctx ends, each time for at most so long: a service that starts while its server is away.
func again(ctx context.Context, limit time.Duration, try func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, limit)
		err := try(once)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if _, over := waited(ctx, 50*time.Millisecond); over != nil {
			return errors.Join(err, over)
		}
	}
}

func consumeUntil(drain bool) func(context.Context, faultJob, func([]byte)) error {
	return func(ctx context.Context, j faultJob, handle func([]byte)) error {
		nc, err := connectForever(j.target.url)
		if err != nil {
			return err
		}
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		var durable jetstream.Consumer
		if err := again(ctx, time.Second, func(ctx context.Context) (err error) {
			durable, err = js.Consumer(ctx, j.target.stream, j.target.consumer)
			return err
		}); err != nil {
			return nil // it was told to stop
		}
		free := make(chan struct{}, j.slots)
		var running sync.WaitGroup
		c, err := durable.Consume(func(m jetstream.Msg) {
			free <- struct{}{}
			running.Go(func() {
				defer func() { <-free }()
				handle(m.Data())
				_ = m.Ack() // what fails comes again
			})
		})
		if err != nil {
			return err
		}
		<-ctx.Done()
		if drain {
			c.Drain()
			<-c.Closed()
		} else {
			c.Stop()
		}
		running.Wait()
		return drainConn(nc)
	}
}

// drainConn drains a connection and waits for its end.
func drainConn(nc *nats.Conn) error {
	closed := make(chan struct{})
	nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
	if err := nc.Drain(); err != nil {
		return err
	}
	<-closed
	return nil
}

func routeUntil(ctx context.Context, j faultJob, handle func([]byte)) error {
	nc, err := connectForever(j.target.url)
	if err != nil {
		return err
	}
	var r *routed
	if err := again(ctx, time.Second, func(context.Context) (err error) {
		r, err = startRouted(ctx, nc, j.target, j.slots, j.wait, false, handle)
		return err
	}); err != nil {
		return nil
	}
	<-ctx.Done()
	_ = r.stop() // it reports what its close timeout left behind
	return nil
}

func groupUntil(ctx context.Context, j faultJob, handle func([]byte)) error {
	nc, err := connectForever(j.target.url)
	if err != nil {
		return err
	}
	members := memberNames((j.index + 1) * j.slots)[j.index*j.slots:]
	var g *group
	if err := again(ctx, 5*time.Second, func(once context.Context) (err error) { // it joins as several
		g, err = joinGroup(once, nc, j.target.stream, j.target.consumer, members, j.wait, 1, func(m jetstream.Msg) {
			handle(m.Data())
			_ = m.Ack()
		})
		return err
	}); err != nil {
		return nil
	}
	<-ctx.Done()
	g.leave(context.WithoutCancel(ctx))
	return drainConn(nc)
}

// config is that of the workers of this library.
func (j faultJob) config(cfg worker.Config) worker.Config {
	cfg.Stream, cfg.Consumer, cfg.Concurrency, cfg.AckWait, cfg.DeadLetterBytes = j.target.stream, j.target.consumer, j.slots, j.wait, letterBytes
	cfg.Logger = zap.NewNop()
	return cfg
}

func runUntil(cfg worker.Config) func(context.Context, faultJob, func([]byte)) error {
	return func(ctx context.Context, j faultJob, handle func([]byte)) error {
		return j.serve(ctx, func(nc *nats.Conn) (*worker.Runner, error) {
			return worker.New(nc, j.config(cfg), ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
				handle(m.Data)
				return nil
			}))
		})
	}
}

func batchUntil(ctx context.Context, j faultJob, handle func([]byte)) error {
	return j.serve(ctx, func(nc *nats.Conn) (*worker.Runner, error) {
		cfg := j.config(worker.Config{BatchSize: 4, BatchLinger: 20 * time.Millisecond})
		return worker.NewBatch(nc, cfg, ackfloor.BatchHandlerFunc(func(_ context.Context, batch *ackfloor.Batch) error {
			for _, m := range batch.Messages {
				handle(m.Data)
			}
			return nil
		}))
	})
}

// serve runs a worker until ctx ends, as worker.Main does.
func (j faultJob) serve(ctx context.Context, build func(*nats.Conn) (*worker.Runner, error)) error {
	nc, err := worker.Connect(ctx, worker.Connection{URL: j.target.url})
	if ctx.Err() != nil {
		return nil // it was told to stop
	}
	if err != nil {
		return err
	}
	defer nc.Close()
	r, err := build(nc)
	if err != nil {
		return err
	}
	return r.Run(ctx)
}
