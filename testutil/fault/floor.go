package fault

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Floor looks at a consumer again and again, and keeps what it saw.
type Floor struct {
	js               jetstream.JetStream
	stream, consumer string
	stop             context.CancelFunc
	ended            chan struct{}

	mu      sync.Mutex
	samples []FloorSample
}

// FloorSample is a consumer as the server told it.
type FloorSample struct {
	At          time.Time // when the answer came
	Floor       uint64    // the ack floor, as a sequence of the stream
	Delivered   uint64    // the highest sequence of the stream that was delivered
	AckPending  int       // delivered, not settled
	Redelivered int
	Pending     uint64 // not delivered yet
	Created     time.Time
}

// WatchFloor looks at the consumer every 20 ms, until ctx ends or Close is called. While the server does not answer nothing is kept.
func WatchFloor(ctx context.Context, js jetstream.JetStream, stream, consumer string) *Floor {
	ctx, stop := context.WithCancel(ctx)
	f := &Floor{js: js, stream: stream, consumer: consumer, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		for ctx.Err() == nil {
			if s, err := f.look(ctx); err == nil {
				f.keep(s)
			}
			rest(ctx, 20*time.Millisecond)
		}
	}()
	return f
}

// Close ends the looking.
func (f *Floor) Close() {
	f.stop()
	<-f.ended
}

func (f *Floor) look(ctx context.Context) (FloorSample, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := f.js.Consumer(ctx, f.stream, f.consumer)
	if err != nil {
		return FloorSample{}, err
	}
	i := c.CachedInfo()
	return FloorSample{At: time.Now(), Floor: i.AckFloor.Stream, Delivered: i.Delivered.Stream, AckPending: i.NumAckPending, Redelivered: i.NumRedelivered,
		Pending: i.NumPending, Created: i.Created}, nil
}

// keep adds a sample; of several that are alike the first two ends are enough.
func (f *Floor) keep(s FloorSample) {
	f.mu.Lock()
	defer f.mu.Unlock()
	alike := func(a, b FloorSample) bool { a.At = b.At; return a == b }
	if n := len(f.samples); n > 1 && alike(f.samples[n-1], s) && alike(f.samples[n-2], s) {
		f.samples[n-1] = s
		return
	}
	f.samples = append(f.samples, s)
}

// Samples returns what was seen so far, in order. Of a consumer that did not change for a while the beginning and the end of that are kept.
func (f *Floor) Samples() []FloorSample {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.samples)
}

// Last is what was seen last; the zero FloorSample before that.
func (f *Floor) Last() FloorSample {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.samples) == 0 {
		return FloorSample{}
	}
	return f.samples[len(f.samples)-1]
}
