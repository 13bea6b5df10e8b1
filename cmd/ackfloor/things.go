package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go/jetstream"
)

// lettersWait is for the look at the stream of the dead letters.
const lettersWait = 3 * time.Second

// learn keeps what the answers tell beside.
func (k *checker) learn(r right, p probed) {
	if r.try != tryAsk || p.denied != nil || p.silent != nil {
		return
	}
	stream := strings.HasSuffix(r.subject, "STREAM.INFO."+k.cfg.Stream)
	if !stream && !strings.Contains(r.subject, "CONSUMER.LIST.") {
		k.there[r.group] = !p.missing()
	}
	switch {
	case p.code == codeNoStream && r.group == "the consumer":
		k.there[k.cfg.Stream] = false
	case p.answer == nil || p.code != 0:
	case stream:
		k.stream = new(jetstream.StreamInfo)
		_ = json.Unmarshal(p.answer.Data, k.stream)
	case r.group == "the consumer":
		k.consumer = new(jetstream.ConsumerInfo)
		_ = json.Unmarshal(p.answer.Data, k.consumer)
	}
}

// things says of each thing that the worker works with whether it is there, whether the worker would make it, and what is wrong with it.
func (k *checker) things(ctx context.Context) {
	k.theStream()
	k.theConsumer()
	if k.cfg.DeadLetter != off {
		k.theLetters(ctx)
		if k.wants.replays {
			k.theRest("replays of dead letters", deadletter.ReplayConsumer(k.cfg.Stream, k.cfg.Consumer), "replays of dead letters are not handled")
		}
	}
	if k.cfg.Records != off {
		k.theRest("the bucket of the attempts", k.cfg.Records, "attempts are counted by deliveries")
	}
	if k.wants.once != "" {
		k.theRest("the bucket of once.KV", k.wants.once, "")
	}
}

func (k *checker) theStream() {
	there, known := k.there[k.cfg.Stream]
	switch {
	case k.stream != nil:
		k.line(good, "the stream", k.cfg.Stream, "%d messages, %d to %d", k.stream.State.Msgs, k.stream.State.FirstSeq, k.stream.State.LastSeq)
		for _, w := range aboutStream(k.cfg, k.stream) {
			k.line(unwise, "the stream", k.cfg.Stream, "%s", w)
		}
	case known && !there:
		k.fail(shutdown.ExitUnavailable, "the stream", k.cfg.Stream, "it is not there; a worker waits for it for WORKER_STARTUP_TIMEOUT (%v) and makes none",
			k.cfg.StartupTimeout)
	default:
		k.line(notTried, "the stream", k.cfg.Stream, "it may not be read")
	}
}

func (k *checker) theConsumer() {
	what, name := "the consumer", k.cfg.Consumer
	there, known := k.there[what]
	gone, streamKnown := k.there[k.cfg.Stream]
	switch {
	case k.consumer == nil && streamKnown && !gone: // said already
	case k.consumer == nil && (!known || there):
		k.line(notTried, what, name, "it may not be read")
	case k.consumer == nil && k.cfg.Bind == worker.BindExisting:
		k.fail(shutdown.ExitUnavailable, what, name, "it is not there, and WORKER_BIND=existing makes none")
	case k.consumer == nil:
		filter := strings.Join(k.cfg.Filter, ", ")
		k.line(good, what, name, "it would be made: starts at %s, takes %s", or(k.cfg.Start, "all"), or(filter, "every subject of the stream"))
	default:
		i := k.consumer
		k.line(good, what, name, "delivered %d, ack floor %d, outstanding %d, unprocessed %d", i.Delivered.Stream, i.AckFloor.Stream, i.NumAckPending, i.NumPending)
		refused, warned := aboutConsumer(k.cfg, i)
		for _, w := range warned {
			k.line(unwise, what, name, "%s", w)
		}
		for _, p := range refused {
			k.fail(shutdown.ExitConfig, what, name, "%s", p)
		}
	}
}

// theLetters looks at the stream of the dead letters as a worker does that makes nothing.
func (k *checker) theLetters(ctx context.Context) {
	name := k.cfg.DeadLetter
	if k.refused["dlq."+k.cfg.Stream+"."+k.cfg.Consumer+".>"] {
		k.line(notTried, "dead letters", name, "they may not be written")
		return
	}
	there, known := k.there["dead letters"]
	if known && !there && k.cfg.Bind != worker.BindExisting {
		k.line(good, "dead letters", name, "their stream would be made: for %d bytes, %v", k.cfg.DeadLetterBytes, deadletter.DefaultMaxAge)
		return
	}
	limited, cancel := context.WithTimeout(ctx, lettersWait)
	defer cancel()
	found, err := deadletter.Prepare(limited, k.nc,
		deadletter.Config{Name: name, Stream: k.cfg.Stream, Consumer: k.cfg.Consumer, APIPrefix: apiPrefix(k.cfg.Connection)})
	switch {
	case err == nil:
		k.line(good, "dead letters", name, "their stream takes them%s", suffixIf(found.Probed, "; its configuration may not be read"))
	case errors.Is(err, deadletter.ErrNoStream) && !known && k.cfg.Bind != worker.BindExisting:
		k.line(good, "dead letters", name, "their stream would be made, where that is permitted")
	case errors.Is(err, deadletter.ErrUnfit) && k.cfg.Bind == worker.BindUpdate && strings.Contains(err.Error(), "BIND=update adds it"):
		k.line(good, "dead letters", name, "their subjects would be added to their stream")
	case errors.Is(err, deadletter.ErrUnfit), errors.Is(err, deadletter.ErrTaken), errors.Is(err, deadletter.ErrReadOnly):
		k.fail(shutdown.ExitConfig, "dead letters", name, "%v", err)
	default:
		k.fail(shutdown.ExitUnavailable, "dead letters", name, "%v", err)
	}
	for _, w := range found.Warnings {
		k.line(unwise, "dead letters", name, "%s", w)
	}
}

// theRest is a thing that is there, or would be made, or is done without.
func (k *checker) theRest(what, name, without string) {
	switch there, known := k.there[what]; {
	case !known:
		k.line(notTried, what, name, "it may not be read")
	case there:
		k.line(good, what, name, "it is there")
	case k.cfg.Bind != worker.BindExisting:
		k.line(good, what, name, "it would be made")
	case without != "":
		k.line(unwise, what, name, "it is not there, and WORKER_BIND=existing makes none; without it %s", without)
	default:
		k.fail(shutdown.ExitUnavailable, what, name, "it is not there: make it (nats kv add %s), or let a user who may make it run the service once", name)
	}
}
