package testutil

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Info returns the state of a consumer.
func (a *Access) Info(t testing.TB, stream, consumer string) *jetstream.ConsumerInfo {
	t.Helper()
	var info *jetstream.ConsumerInfo
	a.ask(t, "the state of consumer "+stream+"/"+consumer, func(ctx context.Context, js jetstream.JetStream) error {
		var err error
		info, err = lookAt(ctx, js, stream, consumer)
		return err
	})
	return info
}

// WaitInfo looks at a consumer every few milliseconds until ok says true of what it saw, and returns that. It fails the
// test when that takes longer than limit, with the state that it saw last; what is what was waited for, in words that go
// on from "waiting for": "the ack floor to reach 100". A server that does not answer is asked again within the limit.
func (a *Access) WaitInfo(t testing.TB, stream, consumer string, limit time.Duration, what string,
	ok func(*jetstream.ConsumerInfo) bool) *jetstream.ConsumerInfo {
	t.Helper()
	js, err := jetstream.New(a.connection(t))
	if err != nil {
		t.Fatalf("testutil: JetStream: %v", err)
	}
	var last *jetstream.ConsumerInfo
	var lastErr error
	if poll(limit, func() bool {
		ctx, cancel := within(t, min(requestLimit, max(limit, 50*time.Millisecond)))
		defer cancel()
		info, err := lookAt(ctx, js, stream, consumer)
		if lastErr = err; err != nil {
			return false
		}
		last = info
		return ok(info)
	}) {
		return last
	}
	saw := "it was never seen"
	if last != nil {
		saw = "last seen: " + describe(last)
	}
	if lastErr != nil {
		saw += fmt.Sprintf("; the last request failed: %v", lastErr)
	}
	t.Fatalf("testutil: consumer %s/%s: after %v still waiting for %s; %s", stream, consumer, limit, what, saw)
	return nil
}

func lookAt(ctx context.Context, js jetstream.JetStream, stream, consumer string) (*jetstream.ConsumerInfo, error) {
	c, err := js.Consumer(ctx, stream, consumer)
	if err != nil {
		return nil, err
	}
	return c.CachedInfo(), nil
}

// describe puts a consumer's state in the words of the nats command.
func describe(i *jetstream.ConsumerInfo) string {
	text := fmt.Sprintf("ack floor %d, ack pending %d, redelivered %d, pending %d, last delivered %d, waiting pulls %d",
		i.AckFloor.Stream, i.NumAckPending, i.NumRedelivered, i.NumPending, i.Delivered.Stream, i.NumWaiting)
	if i.Cluster != nil && i.Cluster.Leader != "" {
		text += ", leader " + i.Cluster.Leader
	}
	return text
}
