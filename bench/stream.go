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

	replicas int         // of the streams; 0 for the server's default
	cluster  string      // where they are, in a supercluster; "" for anywhere
	others   func() work // of more servers than that of pid; nil for none
}

// work is that of the servers.
func (b *bed) work() work {
	if b.others != nil {
		return b.others()
	}
	return workOf(b.pid)
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
	return b.streamOf(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name}})

}

// streamOf makes an empty stream in files, where this bed has its streams.
func (b *bed) streamOf(ctx context.Context, cfg jetstream.StreamConfig) error {
	cfg.Storage, cfg.Replicas = jetstream.FileStorage, b.replicas
	if b.cluster != "" {
		cfg.Placement = &jetstream.Placement{Cluster: b.cluster}
	}
	return patiently(ctx, func(ctx context.Context) error {
		_, err := b.js.CreateStream(ctx, cfg)
		return err
	})
}

// patiently makes something that may be made twice, on servers that may still be looking for a leader.
func patiently(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, settledLimit/2)
	defer cancel()
	return again(ctx, 5*time.Second, try)
}

// fill stores n messages with bodies of size bytes.
func (b *bed) fill(ctx context.Context, stream string, n, size int) error {
	body := make([]byte, size)
	for i := range body {
		body[i] = byte('a' + i%26)
	}
	return b.publish(ctx, stream, n, func(int) (string, []byte) { return stream, body })
}

// publish stores n messages in an empty stream. The first one waits until the stream has a leader that answers.
func (b *bed) publish(ctx context.Context, stream string, n int, message func(i int) (subject string, body []byte)) error {
	subject, body := message(0)
	if _, err := b.js.Publish(ctx, subject, body, jetstream.WithRetryAttempts(100), jetstream.WithRetryWait(100*time.Millisecond)); err != nil {
		return err
	}
	for i := 1; i < n; i++ {
		subject, body := message(i)
		if _, err := b.js.PublishAsync(subject, body, jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	select {
	case <-b.js.PublishAsyncComplete():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return b.stored(ctx, stream, n)
}

// stored waits until n messages are in a stream: who answers may be a little behind, and a copy is.
func (b *bed) stored(ctx context.Context, stream string, n int) error {
	for limit := time.Now().Add(settledLimit); ; {
		s, err := b.js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		have := s.CachedInfo().State.Msgs
		if have == uint64(n) {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("stored %d messages of %d", have, n)
		}
		if _, err := waited(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// durable makes a fresh durable consumer, the same for every contestant: explicit ack, ack_wait 30s, all else the server's defaults.
// It starts at sequence from, 0 for all.
func (b *bed) durable(ctx context.Context, stream, kind string, from uint64) (jetstream.Consumer, error) {
	b.made++
	cfg := jetstream.ConsumerConfig{Durable: fmt.Sprintf("%s-%d", kind, b.made), AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second}
	if from > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from
	}
	return b.consumer(ctx, stream, cfg)
}

// consumer makes a consumer.
func (b *bed) consumer(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (c jetstream.Consumer, err error) {
	err = patiently(ctx, func(ctx context.Context) (err error) {
		c, err = b.js.CreateConsumer(ctx, stream, cfg)
		return err
	})
	return c, err
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

// at is a durable of this server.
func (b *bed) at(stream, consumer string) target {
	return target{url: b.url, stream: stream, consumer: consumer}
}
