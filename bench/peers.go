package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wmjetstream "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/jetstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/pcgroups"
	"go.uber.org/zap"
)

// Other people's libraries, each as its documentation shows it.

// routed is a Router of Watermill with so many handlers on one durable: it has no other way to handle messages side by side.
type routed struct {
	router *message.Router
	nc     *nats.Conn
	ended  chan error
}

// startRouted runs a router on an existing durable. The subscriber confirms acks by DoubleAck unless async.
func startRouted(ctx context.Context, nc *nats.Conn, t target, handlers int, ackWait time.Duration, async bool, handle func([]byte)) (*routed, error) {
	sub, err := wmjetstream.NewSubscriber(wmjetstream.SubscriberConfig{
		Conn: nc, Logger: watermill.NopLogger{}, AckAsync: async, AckWaitTimeout: ackWait,
		ResourceInitializer: wmjetstream.ExistingConsumer(func(string, string) jetstream.ConsumerConfig { return jetstream.ConsumerConfig{Name: t.consumer} }, ""),
	})
	if err != nil {
		return nil, err
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	for range handlers {
		router.AddConsumerHandler(watermill.NewShortUUID(), t.stream, sub, func(m *message.Message) error {
			handle(m.Payload)
			return nil
		})
	}
	r := &routed{router: router, nc: nc, ended: make(chan error, 1)}
	go func() { r.ended <- router.Run(context.WithoutCancel(ctx)) }() // Close ends it
	select {
	case <-router.Running():
		return r, nil
	case err := <-r.ended:
		return nil, errors.Join(errors.New("the router ended at once"), err)
	}
}

// stop closes the router, which drains its connection.
func (r *routed) stop() error {
	err := errors.Join(r.router.Close(), <-r.ended)
	r.nc.Close()
	return err
}

func startWatermill(async bool) func(context.Context, target, func([]byte)) (func() error, error) {
	return func(ctx context.Context, t target, handle func([]byte)) (func() error, error) {
		nc, err := nats.Connect(t.url)
		if err != nil {
			return nil, err
		}
		r, err := startRouted(ctx, nc, t, slots, 30*time.Second, async, handle)
		if err != nil {
			nc.Close()
			return nil, err
		}
		return r.stop, nil
	}
}

// startBatched runs a worker of batches of up to 250 messages.
func startBatched(ctx context.Context, t target, handle func([]byte)) (func() error, error) {
	h := ackfloor.BatchHandlerFunc(func(_ context.Context, batch *ackfloor.Batch) error {
		for _, m := range batch.Messages {
			handle(m.Data)
		}
		return nil
	})
	cfg := worker.Config{Logger: zap.NewNop(), Concurrency: 2, BatchSize: 250, BatchLinger: 20 * time.Millisecond}
	_, stop, err := startRunner(ctx, t, cfg, func(nc *nats.Conn, c worker.Config) (*worker.Runner, error) { return worker.NewBatch(nc, c, h) })
	return stop, err
}

// group is a static consumer group of pcgroups: a member for each partition, so that as many callbacks run side by side.
type group struct {
	js      jetstream.JetStream
	stream  string
	name    string
	members []string
	joined  []pcgroups.ConsumerGroupConsumeContext
}

// joinGroup joins as the members, each with a callback of its own. pending is the consumers' max_ack_pending: with 1 the next message of a partition waits
// until the one before is acknowledged, which is what the library's documentation says that strict order takes.
func joinGroup(ctx context.Context, nc *nats.Conn, stream, name string, members []string, ackWait time.Duration, pending int, each func(jetstream.Msg)) (*group, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	g := &group{js: js, stream: stream, name: name, members: members}
	for _, member := range members {
		cfg := jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: pending}
		joined, err := pcgroups.StaticConsume(ctx, js, stream, name, member, each, cfg)
		if err != nil {
			g.leave(ctx)
			return nil, err
		}
		g.joined = append(g.joined, joined)
	}
	return g, nil
}

// leave stops all members and hands their pins on, so that another instance need not wait until they end.
func (g *group) leave(ctx context.Context) {
	var all sync.WaitGroup
	for i, j := range g.joined {
		all.Go(func() {
			j.Stop()
			<-j.Done()
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_ = pcgroups.StaticMemberStepDown(ctx, g.js, g.stream, g.name, g.members[i]) // else the pin ends by itself
		})
	}
	all.Wait()
}
