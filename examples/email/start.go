package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/examples/internal/shop"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	samples    = 8 // events that an empty stream is given by the examples
	samplesID  = "ackfloor-examples-seed-"
	samplesTo  = "seq:5" // the first of them that this service writes about; those before were answered by its predecessor
	seedLimit  = 2 * time.Second
	seedLook   = 50 * time.Millisecond
	startLimit = 5 * time.Second
)

// start is where a consumer starts that is new: where WORKER_START says; else where a consumer that is there has started, since that is never
// changed; else, where there are no orders and users but those of the sample events, at the fifth of these, so that a first look at this service has
// something to show. On any other stream it is what main says, new: nobody is written to about what happened before the service was there.
func (s service) start(ctx context.Context, e shop.Env) string {
	if s.told || e.Config.Bind == worker.BindExisting {
		return e.Config.Start
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c, err := e.JS.Consumer(ctx, e.Config.Stream, e.Config.Consumer)
	switch {
	case err == nil:
		return startOf(c.CachedInfo().Config, e.Config.Start)
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return e.Config.Start // the worker will say what is wrong
	}
	if onlySamples(ctx, e.JS, e.Config.Stream, e.Config.Filter) {
		return samplesTo
	}
	return e.Config.Start
}

// startOf is the start of a consumer in the words of WORKER_START.
func startOf(c jetstream.ConsumerConfig, otherwise string) string {
	switch c.DeliverPolicy {
	case jetstream.DeliverAllPolicy:
		return "all"
	case jetstream.DeliverNewPolicy:
		return "new"
	case jetstream.DeliverLastPolicy:
		return "last"
	case jetstream.DeliverByStartSequencePolicy:
		return fmt.Sprintf("seq:%d", c.OptStartSeq)
	case jetstream.DeliverByStartTimePolicy:
		if c.OptStartTime != nil {
			return "time:" + c.OptStartTime.UTC().Format(time.RFC3339Nano)
		}
	}
	return otherwise
}

// onlySamples tells whether there is nothing to write about in a stream but the sample events, with which it begins: the last event of each subject of this
// service is one of them. Another example may be putting them in just now, so it waits a moment for the last.
func onlySamples(ctx context.Context, js jetstream.JetStream, name string, filter []string) bool {
	stream, err := js.Stream(ctx, name)
	if err != nil || !isSample(stream.GetMsg(ctx, 1)) {
		return false
	}
	for end := time.Now().Add(seedLimit); ; {
		info, err := stream.Info(ctx)
		if err != nil || time.Now().After(end) {
			return false
		}
		if info.State.LastSeq >= samples {
			break
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(seedLook):
		}
	}
	for _, subject := range filter {
		if !isSample(stream.GetLastMsgForSubject(ctx, subject)) {
			return false
		}
	}
	return len(filter) > 0
}

func isSample(m *jetstream.RawStreamMsg, err error) bool {
	return err == nil && m.Sequence <= samples && strings.HasPrefix(m.Header.Get(nats.MsgIdHdr), samplesID)
}
