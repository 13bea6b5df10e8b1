package shop

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	streamName    = "EVENTS"
	streamSubject = "events.>"

	requestWait = 2 * time.Second        // one request; a server that is starting leaves them unanswered, so short and again
	askAgain    = 100 * time.Millisecond // between two tries
)

// prepare makes sure of the stream and puts the seeds in it where nothing was ever stored. It asks again until limit where the server
// does not answer.
func prepare(ctx context.Context, js jetstream.JetStream, limit time.Duration, say func(string, ...any)) error {
	end := time.Now().Add(limit)
	said := false
	for {
		try, cancel := context.WithTimeout(ctx, requestWait)
		err := prepareOnce(try, js, say)
		cancel()
		if err == nil || !passing(err) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(end) {
			return unavailable("stream %s was not available within %v: %v; "+
				"with WORKER_BIND=existing nothing is created, for a user who may not do that", streamName, limit, err)
		}
		if !said {
			said = true
			say("waiting for JetStream: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(askAgain):
		}
	}
}

// passing tells an error of a server that is starting or electing from one that stays.
func passing(err error) bool {
	var code *exitError
	if errors.As(err, &code) {
		return false
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 503
	}
	return true
}

func prepareOnce(ctx context.Context, js jetstream.JetStream, say func(string, ...any)) error {
	stream, err := js.Stream(ctx, streamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		// The server says the same to two who create it at once with the same configuration.
		stream, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: streamName, Subjects: []string{streamSubject}, Storage: jetstream.FileStorage})
		if err == nil {
			say("stream %s is there now, for %s", streamName, streamSubject)
		}
	}
	var api *jetstream.APIError
	if errors.As(err, &api) && api.Code == 400 && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return misconfigured("stream %s can't be made: %s (code %d); the examples need %s, which another stream may hold (see nats stream ls -a)",
			streamName, api.Description, api.ErrorCode, streamSubject)
	}
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	if have := info.Config.Subjects; !slices.Contains(have, streamSubject) && !slices.Contains(have, ">") {
		return misconfigured("stream %s is there with the subjects %q; the examples need %q: set NATS_URL to another server, or remove the stream (nats stream rm %s)",
			streamName, have, streamSubject, streamName)
	}
	if info.State.LastSeq > 0 { // not Msgs: a stream whose messages are gone is not new
		return nil
	}
	return seed(ctx, js, say)
}

// seed puts the seeds in the stream. Two programs may do so at once: each seed has a Nats-Msg-Id, by which the server drops the
// second copy (within the stream's duplicate window, two minutes by default), and each program waits for one to be stored
// before it sends the next, so that the order holds too.
func seed(ctx context.Context, js jetstream.JetStream, say func(string, ...any)) error {
	stored := 0
	for i, e := range seeds {
		ack, err := js.Publish(ctx, e.subject, []byte(e.data), jetstream.WithMsgID(seedID(i)), jetstream.WithExpectStream(streamName))
		if err != nil {
			return err
		}
		if !ack.Duplicate {
			stored++
		}
	}
	if stored > 0 {
		say("put %d sample events into it", stored)
	}
	return nil
}
