package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const settledLimit = 2 * time.Minute // for a contestant to settle what it has handled

// bed is the parent's side of the server: it makes streams and durables and looks at them.
type bed struct {
	url  string
	pid  string // of the server
	nc   *nats.Conn
	js   jetstream.JetStream
	made int // durables, for their names
}

func newBed(url, pid string) (*bed, error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4000))
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &bed{url: url, pid: pid, nc: nc, js: js}, nil
}

// stream makes an empty stream in files. Its one subject is its name.
func (b *bed) stream(ctx context.Context, name string) error {
	_, err := b.js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name}, Storage: jetstream.FileStorage})
	return err
}

// fill stores n messages with bodies of size bytes.
func (b *bed) fill(ctx context.Context, stream string, n, size int) error {
	body := make([]byte, size)
	for i := range body {
		body[i] = byte('a' + i%26)
	}
	for range n {
		if _, err := b.js.PublishAsync(stream, body, jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	select {
	case <-b.js.PublishAsyncComplete():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	if have := s.CachedInfo().State.Msgs; have < uint64(n) {
		return fmt.Errorf("stored %d messages of %d", have, n)
	}
	return nil
}

// durable makes a fresh durable consumer, the same for every contestant: explicit ack, ack_wait 30s, all else the server's defaults.
// It starts at sequence from, 0 for all.
func (b *bed) durable(ctx context.Context, stream, kind string, from uint64) (jetstream.Consumer, error) {
	b.made++
	cfg := jetstream.ConsumerConfig{Durable: fmt.Sprintf("%s-%d", kind, b.made), AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second}
	if from > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from
	}
	return b.js.CreateConsumer(ctx, stream, cfg)
}

// forget deletes a durable, and the one of its worker's replays.
func (b *bed) forget(ctx context.Context, stream, name string) {
	_ = b.js.DeleteConsumer(ctx, stream, name)
	_ = b.js.DeleteConsumer(ctx, stream+"_DLQ", deadletter.ReplayConsumer(stream, name))
}

// settled waits until the server has nothing left for the consumer, neither to deliver nor to be acknowledged, and returns when
// it said so. It asks every 2 ms, and only once everything is handled: so it takes nothing from a contestant that runs.
func settled(ctx context.Context, c jetstream.Consumer) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, settledLimit)
	defer cancel()
	for {
		info, err := c.Info(ctx)
		if err != nil {
			return time.Time{}, fmt.Errorf("waiting until all is settled: %w", err)
		}
		if info.NumPending == 0 && info.NumAckPending == 0 {
			return time.Now(), nil
		}
		time.Sleep(2 * time.Millisecond)
	}
}
