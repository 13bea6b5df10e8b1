package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/internal/denied"
	"github.com/ackfloor/ackfloor/internal/wildcard"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// How long the server is waited for. A denied request is not answered but reported beside, mostly within a millisecond; during an election nothing is.
const (
	probeWait  = 500 * time.Millisecond
	probeLook  = 5 * time.Millisecond // how often it is looked whether it was reported
	probeTries = 3
)

// What the probes send.
const (
	spoiled = "{"                    // begins as JSON and is none: refused by whatever reads it (nats-server 2.15, unmarshalRequest, nextReqFromMsg)
	noAck   = "?"                    // none of the words of a settlement: answered, and nothing is done (nats-server 2.15, processAck)
	never   = "18446744073709551615" // a last sequence that no stream reaches
	token   = "0"                    // in the place of a wildcard: no message and no key has that name
)

// probed is what a probe found out.
type probed struct {
	denied  error     // the server's words, where the right is missing
	silent  error     // why nothing was found out
	nobody  bool      // the right is there, and nobody answers: what is asked is missing
	answer  *nats.Msg // else
	code    int       // of the answer's error
	problem string    // its words
}

// missing tells whether what was asked for is not there.
func (p probed) missing() bool {
	return p.nobody || p.code == codeNoStream || p.code == codeNoConsumer
}

// The codes of the JetStream API that mean something here (nats-server 2.15, errors.json).
const (
	codeNoStream   = 10059
	codeNoConsumer = 10014
)

// probe finds out whether a right is there.
func (k *checker) probe(ctx context.Context, r right) (p probed) {
	m := nats.NewMsg(strings.ReplaceAll(strings.ReplaceAll(r.subject, "*", "_"), ">", token))
	switch r.try {
	case trySpoil:
		m.Data = []byte(spoiled)
	case tryAck:
		m.Subject, m.Data = strings.TrimSuffix(m.Subject, token)+"1.1.1.1.0", []byte(noAck)
	case tryStore:
		m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, never)
	}
	if r.try == tryTell {
		p = k.request(ctx, m, r.subject)
		p.silent = nil // nobody answers that
		return p
	}
	for range probeTries - k.silent {
		if p = k.request(ctx, m, r.subject); p.silent == nil || ctx.Err() != nil {
			return p
		}
	}
	k.silent = probeTries - 1 // what comes next is asked once
	return p
}

// request sends a request and waits for its answer, or for the server's word that it is denied.
func (k *checker) request(ctx context.Context, m *nats.Msg, allow string) probed {
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	before := k.nc.LastError()
	var refused error
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		refused = k.watch(ctx, before, m.Subject, allow)
		if refused != nil {
			cancel()
		}
	}()
	answer, err := k.nc.RequestMsgWithContext(ctx, m)
	cancel()
	<-watched
	switch {
	case err == nil:
		return read(answer)
	case refused != nil:
		return probed{denied: refused}
	case errors.Is(err, nats.ErrNoResponders):
		return probed{nobody: true}
	}
	return probed{silent: err}
}

// watch waits until the server says that a subject is denied, or until ctx ends, and then looks once more.
func (k *checker) watch(ctx context.Context, before error, subject, allow string) error {
	ticker := time.NewTicker(probeLook)
	defer ticker.Stop()
	for over := false; ; {
		if err := k.nc.LastError(); err != before {
			about, publish, ok := denied.Of(err)
			if ok && publish && (about == subject || wildcard.Covers(allow, about) || wildcard.Covers(local(k.cfg, allow), about)) {
				return err
			}
		}
		if over {
			return nil
		}
		select {
		case <-ctx.Done():
			over = true
		case <-ticker.C:
		}
	}
}

// read takes the error out of an answer of the API.
func read(answer *nats.Msg) probed {
	var body struct {
		Error *jetstream.APIError `json:"error"`
	}
	p := probed{answer: answer}
	if json.Unmarshal(answer.Data, &body) == nil && body.Error != nil {
		p.code, p.problem = int(body.Error.ErrorCode), body.Error.Description
	}
	return p
}

// listen finds out whether a subject may be subscribed to.
func (k *checker) listen(ctx context.Context, r right) (refused bool, err error) {
	before := k.nc.LastError()
	subject := r.subject
	if subject == inboxes(k.cfg) {
		subject = k.nc.NewInbox() + ".*" // as the worker does: one of them
	}
	sub, err := k.nc.SubscribeSync(subject)
	if err != nil {
		return false, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	if err := k.nc.FlushWithContext(ctx); err != nil { // what is denied is reported before the flush is answered
		return false, err
	}
	if err := k.nc.LastError(); err != before {
		about, publish, ok := denied.Of(err)
		return ok && !publish && about == subject, nil
	}
	return false, nil
}
