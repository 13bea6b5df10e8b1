package once

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/internal/denied"
	"github.com/ackfloor/ackfloor/internal/kvbucket"
	"github.com/nats-io/nats.go/jetstream"
)

// tryWait bounds one request. While a leader is elected requests are not answered at all, so short and again.
const tryWait = time.Second

// Prepare finds the bucket, or makes it: with as many replicas as KVConfig says, or else as the stream has whose messages are handled. Each message does so
// itself as long as none has; a service that calls it at its start fails there rather than at its first message, with a *BucketError.
func (k *KV) Prepare(ctx context.Context, stream string) error {
	_, err := k.bucket(ctx, stream)
	return err
}

// bucket returns the bucket, once it is found.
func (k *KV) bucket(ctx context.Context, stream string) (jetstream.KeyValue, error) {
	if found := k.found.Load(); found != nil {
		return *found, nil
	}
	select {
	case k.opening <- struct{}{}:
		defer func() { <-k.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if found := k.found.Load(); found != nil {
		return *found, nil
	}
	kv, err := k.bind(ctx)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		if err = k.make(ctx, k.replicas(ctx, stream)); err == nil {
			kv, err = k.bind(ctx)
		}
	}
	if err != nil {
		return nil, k.trouble(err)
	}
	k.compare(ctx, kv)
	k.found.Store(&kv)
	return kv, nil
}

func (k *KV) bind(ctx context.Context) (kv jetstream.KeyValue, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryWait)
	defer cancel()
	return k.js.KeyValue(ctx, k.cfg.Bucket)
}

// make makes the bucket.
func (k *KV) make(ctx context.Context, replicas int) error {
	return kvbucket.Make(k.cfg.Bucket, "Ackfloor: which messages have had their effect", k.cfg.TTL, replicas, 256<<20, func(cfg jetstream.StreamConfig) error {
		ctx, cancel := context.WithTimeout(ctx, tryWait)
		defer cancel()
		_, err := k.js.CreateStream(ctx, cfg)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was faster, and is configured otherwise
			err = nil
		}
		return err
	})
}

// replicas is how many copies a new bucket gets: 1 where nobody says, or the user may not ask.
func (k *KV) replicas(ctx context.Context, stream string) int {
	if k.cfg.Replicas > 0 || stream == "" {
		return max(1, k.cfg.Replicas)
	}
	ctx, cancel := context.WithTimeout(ctx, tryWait)
	defer cancel()
	s, err := k.js.Stream(ctx, stream)
	if err != nil {
		return 1
	}
	return max(1, s.CachedInfo().Config.Replicas)
}

// compare tells where a bucket that was there forgets sooner than it should.
func (k *KV) compare(ctx context.Context, kv jetstream.KeyValue) {
	ctx, cancel := context.WithTimeout(ctx, tryWait)
	defer cancel()
	status, err := kv.Status(ctx)
	if err == nil && status.TTL() > 0 && status.TTL() < k.cfg.TTL {
		k.report(fmt.Errorf("once: bucket %q keeps marks for %v, not for %v as it should: change max_age of its stream KV_%s",
			k.cfg.Bucket, status.TTL(), k.cfg.TTL, k.cfg.Bucket))
	}
}

func (k *KV) report(err error) {
	if k.cfg.OnError != nil {
		k.cfg.OnError(err)
	}
}

// trouble makes the error of a bucket that could not be asked. Where that is a matter of rights it names the subject to allow.
func (k *KV) trouble(err error) *BucketError {
	e := &BucketError{Bucket: k.cfg.Bucket, Err: err}
	last := k.js.Conn().LastError()
	subject, publish, ok := denied.Of(last)
	if !errors.Is(err, context.DeadlineExceeded) || !ok || !publish {
		return e
	}
	for _, ours := range []string{".KV_" + k.cfg.Bucket, "$KV." + k.cfg.Bucket} {
		_, rest, found := strings.Cut(subject, ours)
		switch {
		case found && rest == "":
			e.Allow, e.Err = subject, last
		case found && rest[0] == '.':
			e.Allow, e.Err = strings.TrimSuffix(subject, rest)+".>", last
		}
		if e.Allow != "" {
			return e
		}
	}
	return e
}
