package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// shared is what several processes did together.
type shared struct {
	n       int
	took    time.Duration
	reports []report
	cpu     time.Duration // of all of them
	server  work
	slots   int // of all of them
	work    time.Duration
	pending int // max_ack_pending of all their durables together
}

func (s shared) rate() float64 { return float64(s.n) / s.took.Seconds() }

// handled is how often handlers ran; more than n when a message came twice.
func (s shared) handled() (sum int) {
	for _, r := range s.reports {
		sum += r.Handled
	}
	return sum
}

// cores are how many cores the workers and the servers kept busy on average.
func (s shared) cores() (workers, server float64) {
	return s.cpu.Seconds() / s.took.Seconds(), s.server.CPU.Seconds() / s.took.Seconds()
}

// busy is how many handlers ran on average, of those that sleep.
func (s shared) busy() float64 {
	var sum time.Duration
	for _, r := range s.reports {
		sum += r.Busy
	}
	return sum.Seconds() / s.took.Seconds()
}

// peak is the resident memory of the largest process in bytes.
func (s shared) peak() (most uint64) {
	for _, r := range s.reports {
		most = max(most, r.PeakRSS)
	}
	return most
}

// again is how many messages came more than once.
func (s shared) again() int { return s.handled() - s.n }

// complete tells whether each message was handled, and by a worker of ours once. What others handle again is a figure: Consume did, of messages of 1 MiB.
func (s shared) complete(name string) error {
	if again := s.again(); again < 0 || again > 0 && strings.HasPrefix(name, "ackfloor") {
		return fmt.Errorf("%s: %d messages were handled %d times", name, s.n, s.handled())
	}
	return nil
}

// limit says what held the rate down, as far as the figures tell, and what was handled again.
func (s shared) limit() string {
	if again := s.again(); again > 0 && len(s.reports) > 0 {
		return fmt.Sprintf("%s; %d handled again", s.limits(), again)
	}
	return s.limits()
}

func (s shared) limits() string {
	workers, server := s.cores()
	cores := float64(runtime.NumCPU())
	switch busy := s.busy(); {
	case busy > 0.85*float64(min(s.slots, s.pending)) && s.pending < s.slots:
		return "max_ack_pending"
	case busy > 0.85*float64(s.slots):
		return "handlers: slots / their time"
	case workers+server > 0.85*cores && server >= workers:
		return "CPU, most of it the server's"
	case workers+server > 0.85*cores:
		return "CPU, most of it the workers'"
	case server > 0.8:
		return "the server: one core is busy with one consumer"
	case workers > 0.8*float64(len(s.reports)):
		return "the worker: one core is busy reading"
	case s.took < 100*time.Millisecond:
		return "start and end of a short run"
	}
	return "waiting: round trips, timers, files"
}

// together runs a process of each order until settled says that all n messages are. begin lets the work begin; what came before it is not counted.
func (b *bed) together(ctx context.Context, orders []order, n int, begin func() error, settled func(context.Context) (time.Time, error)) (shared, error) {
	s := shared{n: n}
	var all []*conversation
	var faults []error
	defer func() {
		for _, c := range all {
			_ = c.end(nil, true)
		}
	}()
	for _, o := range orders {
		o.mode = modeShare
		c, err := converse(ctx, o)
		if err != nil {
			return s, err
		}
		all = append(all, c)
		s.slots, s.work = s.slots+max(1, o.share.slots)*max(1, o.share.parts), o.share.work
	}
	for _, c := range all {
		c.say("start")
	}
	for _, c := range all {
		if err := c.await("working"); err != nil {
			return s, fmt.Errorf("%s: %w", c.o.name, err)
		}
	}
	before, began := b.work(), time.Now()
	if err := begin(); err != nil {
		return s, err
	}
	ended, err := settled(ctx)
	if err != nil {
		return s, err
	}
	s.took, s.server = ended.Sub(began), b.work().since(before)
	for _, c := range all {
		c.say("stop")
		var r report
		faults = append(faults, json.NewDecoder(c.from).Decode(&r))
		s.reports, s.cpu = append(s.reports, r), s.cpu+r.Usage.CPU
	}
	return s, errors.Join(faults...)
}

// onDurable has processes share a durable of a stream that is filled. They are bound before its first message is delivered: it is paused until then.
func (b *bed) onDurable(ctx context.Context, stream string, from uint64, n, pending int, orders ...order) (shared, error) {
	b.made++
	until := time.Now().Add(time.Hour)
	cfg := jetstream.ConsumerConfig{Durable: fmt.Sprintf("share-%d", b.made), AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: pending, PauseUntil: &until}
	if from > 1 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from
	}
	durable, err := b.consumer(ctx, stream, cfg)
	if err != nil {
		return shared{}, err
	}
	defer b.forget(context.WithoutCancel(ctx), stream, cfg.Durable)
	for i := range orders {
		orders[i].target.stream, orders[i].target.consumer = stream, cfg.Durable
		if orders[i].target.url == "" {
			orders[i].target.url = b.url
		}
	}
	s, err := b.together(ctx, orders, n, func() error {
		_, err := b.js.ResumeConsumer(ctx, stream, cfg.Durable)
		return err
	}, func(ctx context.Context) (time.Time, error) { return settled(ctx, durable) })
	s.pending = pending
	if err == nil {
		err = s.complete(orders[0].name)
	}
	return s, err
}
