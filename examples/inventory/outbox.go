package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

const (
	outboxBatch = 128              // events read, published and removed at a time
	outboxAside = 16               // published side by side
	outboxLook  = time.Second      // without notice: for what another process has left, and behind an error
	sendWait    = 2 * time.Second  // one publish; one without an answer is looked for
	lastWait    = 5 * time.Second  // for what is left when the worker has drained
	warnEvery   = 30 * time.Second // while nothing can be published
)

// The server's answers to an event whose subject has a message already: by the last sequence, and by one that is about to be stored.
const (
	codeWrongLast     jetstream.ErrorCode = 10071
	codeWrongLastSoon jetstream.ErrorCode = 10164
)

// outbox publishes the events that transactions have left in the database, each once.
//
// Each order has a subject of its own, as events.stock_reserved.1001, and an event is published on the condition that its subject has no message yet
// (Nats-Expected-Last-Subject-Sequence: 0). So it doesn't matter how often it is tried, by how many processes, or how long after: the stream is the
// proof. It has a Nats-Msg-Id as well, by which the stream drops a copy without an error while its duplicate window lasts.
type outbox struct {
	store  *store
	js     jetstream.JetStream
	stream string
	log    *zap.Logger
	wake   chan struct{} // there may be something
	warned time.Time
}

func newOutbox(s *store, js jetstream.JetStream, stream string, log *zap.Logger) *outbox {
	return &outbox{store: s, js: js, stream: stream, log: log, wake: make(chan struct{}, 1)}
}

// notice wakes the outbox. It never waits.
func (b *outbox) notice() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// run publishes until ctx ends, which is when the worker has drained, and then what is left. What can't be published then waits for the next start.
func (b *outbox) run(ctx context.Context) error {
	for {
		b.empty(ctx)
		select {
		case <-b.wake:
		case <-time.After(outboxLook):
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWait)
			defer cancel()
			b.empty(last)
			return nil
		}
	}
}

// empty publishes what there is, or says why not.
func (b *outbox) empty(ctx context.Context) {
	for {
		n, err := b.round(ctx)
		if err != nil && ctx.Err() == nil && time.Since(b.warned) > warnEvery {
			b.warned = time.Now()
			b.log.Warn("events of reservations wait in the outbox", zap.Error(err))
		}
		if err != nil || n < outboxBatch {
			return
		}
	}
}

// waiting is an event in the outbox.
type waiting struct {
	id      int64
	subject string
	payload string
}

// round publishes one batch, and removes what is in the stream. It returns how many there were.
func (b *outbox) round(ctx context.Context) (int, error) {
	batch, err := b.store.waiting(ctx)
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	stored := make([]bool, len(batch))
	errs := make([]error, len(batch))
	var all sync.WaitGroup
	slots := make(chan struct{}, outboxAside)
	for i, e := range batch {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = b.publish(ctx, e)
			stored[i] = errs[i] == nil
		})
	}
	all.Wait()
	return len(batch), errors.Join(b.store.published(ctx, batch, stored), first(errs))
}

func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// publish returns nil where the event is in the stream, whoever has put it there.
func (b *outbox) publish(ctx context.Context, e waiting) error {
	ctx, cancel := context.WithTimeout(ctx, sendWait)
	defer cancel()
	m := &nats.Msg{Subject: e.subject, Data: []byte(e.payload), Header: nats.Header{"Content-Type": {"application/json"}}}
	_, err := b.js.PublishMsg(ctx, m, jetstream.WithMsgID(e.subject), jetstream.WithExpectStream(b.stream), jetstream.WithExpectLastSequencePerSubject(0))
	api, ok := errors.AsType[*jetstream.APIError](err)
	if ok && (api.ErrorCode == codeWrongLast || api.ErrorCode == codeWrongLastSoon) {
		err = b.look(ctx, e)
	}
	if err != nil {
		return fmt.Errorf("publishing %s: %w", e.subject, err)
	}
	return nil
}

// look returns nil where the stream has a message of the event's subject. That the server refuses another is not enough: on a cluster it does so, too, while
// an earlier one is about to be stored, which may yet fail.
func (b *outbox) look(ctx context.Context, e waiting) error {
	stream, err := b.js.Stream(ctx, b.stream)
	if err == nil {
		_, err = stream.GetLastMsgForSubject(ctx, e.subject)
	}
	return err
}

// waiting returns the oldest events in the outbox.
func (s *store) waiting(ctx context.Context) (batch []waiting, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT id, subject, payload FROM inventory_outbox ORDER BY id LIMIT $1", outboxBatch)
	if err != nil {
		return nil, fmt.Errorf("reading the outbox: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var e waiting
		if err := rows.Scan(&e.id, &e.subject, &e.payload); err != nil {
			return nil, fmt.Errorf("reading the outbox: %w", err)
		}
		batch = append(batch, e)
	}
	return batch, rows.Err()
}

// published removes the events that are in the stream, in one transaction.
func (s *store) published(ctx context.Context, batch []waiting, stored []bool) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("emptying the outbox: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	for i, e := range batch {
		if !stored[i] {
			continue
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM inventory_outbox WHERE id = $1", e.id); err != nil {
			return fmt.Errorf("emptying the outbox: %w", err)
		}
	}
	return tx.Commit()
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// token is an order's id as a part of a subject: as it is where it is plain, else a sum of it, since an id may have dots, blanks and wildcards. The payload
// has the id itself.
func token(id string) string {
	if plain.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256=" + hex.EncodeToString(sum[:])
}
