package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/internal/kvbucket"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// openRecords finds or makes the bucket. Where that is not permitted, attempts are counted by deliveries, and it says so.
func (r *Runner) openRecords(ctx context.Context, began time.Time) error {
	switch {
	case r.cfg.Records == off:
		return nil
	case r.source != nil: // the same bucket, and keys beside those of the messages
		r.records.kv, r.records.consumer, r.records.born = r.source.records.kv, r.source.records.consumer+".replay", r.bound.info.Created.UnixNano()
		return nil
	}
	info := r.subjects.prefix + "STREAM.INFO.KV_" + r.cfg.Records
	var stream jetstream.StreamInfo
	err := r.request(ctx, info, nil, &stream)
	var denied *PermissionError
	switch {
	case err == nil:
	case errors.As(err, &denied):
		r.withoutRecords(denied)
		return nil
	case apiCode(err) == codeStreamNotFound && r.cfg.Bind == BindExisting:
		r.withoutRecords(fmt.Errorf("there is no bucket %q, and BIND=existing makes none", r.cfg.Records))
		return nil
	case apiCode(err) != codeStreamNotFound:
		return err // perhaps an election: once more
	}
	if err != nil {
		if err = r.makeBucket(ctx); errors.As(err, &denied) {
			r.withoutRecords(denied)
			return nil
		} else if err != nil {
			return err
		}
	}
	js, err := r.jetStream()
	if err != nil {
		return err
	}
	kv, err := js.KeyValue(ctx, r.cfg.Records)
	if err != nil {
		return err
	}
	switch err := r.mayWrite(ctx); {
	case err != nil && r.onceMore(err, began):
		return err // an election: once more
	case err != nil:
		r.withoutRecords(err)
		return nil
	}
	r.records.kv, r.records.consumer, r.records.born = kv, r.recordKeys(), r.bound.info.Created.UnixNano()
	return nil
}

// recordKeys is what the keys of this consumer begin with: several streams may share a bucket.
func (r *Runner) recordKeys() string {
	return kvbucket.Token(r.cfg.Stream) + "." + kvbucket.Token(r.cfg.Consumer)
}

// bucketName makes of a stream's name what may stand in the name of a bucket.
func bucketName(stream string) string {
	return strings.Map(func(c rune) rune {
		if kvbucket.Plain(string(c)) {
			return c
		}
		return '_'
	}, stream)
}

// makeBucket makes the bucket.
func (r *Runner) makeBucket(ctx context.Context) error {
	return kvbucket.Make(r.cfg.Records, "Ackfloor: failures and suspicions of messages of "+r.cfg.Stream, recordTTL, r.replicas(), 64<<20, func(cfg jetstream.StreamConfig) error {
		body, err := json.Marshal(cfg)
		if err != nil {
			return err
		}
		var made jetstream.StreamInfo
		return r.request(ctx, r.subjects.prefix+"STREAM.CREATE."+cfg.Name, body, &made)
	})
}

// mayWrite asks to store a record on a condition that can't be met: the refusal tells that the user may write, and nothing is stored.
func (r *Runner) mayWrite(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recordWait)
	defer cancel()
	subject := "$KV." + r.cfg.Records + "." + r.recordKeys() + ".0"
	if r.subjects.prefix != defaultAPI {
		subject = r.subjects.prefix + subject
	}
	m := nats.NewMsg(subject)
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, "18446744073709551615")
	if _, err := r.nc.RequestMsgWithContext(ctx, m); err != nil {
		if denied := r.denied(subject); denied != nil {
			denied.Allow = subject[:len(subject)-1] + ">"
			return denied
		}
		return fmt.Errorf("bucket %q does not answer: %w", r.cfg.Records, err)
	}
	return nil
}

// withoutRecords says what follows where no records can be kept.
func (r *Runner) withoutRecords(err error) {
	r.log.Warn("attempts are counted by the server's deliveries, and a message that kills its process is known by these only: no bucket for records",
		zap.String("bucket", r.cfg.Records), zap.String("error", shown(err.Error())))
}
