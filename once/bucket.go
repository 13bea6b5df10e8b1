package once

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
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

// make makes the bucket as the client's CreateKeyValue does (nats.go 1.55), without asking for the account's limits first, for which few users have the right.
func (k *KV) make(ctx context.Context, replicas int) error {
	cfg := jetstream.StreamConfig{
		Name: "KV_" + k.cfg.Bucket, Description: "Ackfloor: which messages have had their effect", Subjects: []string{"$KV." + k.cfg.Bucket + ".>"},
		MaxMsgsPerSubject: 1, MaxAge: k.cfg.TTL, Replicas: replicas, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, AllowDirect: true,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1,
	}
	create := func() error {
		ctx, cancel := context.WithTimeout(ctx, tryWait)
		defer cancel()
		_, err := k.js.CreateStream(ctx, cfg)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was faster, and is configured otherwise
			err = nil
		}
		return err
	}
	err := create()
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == codeMaxBytesRequired {
		cfg.MaxBytes = 256 << 20
		err = create()
	}
	return err
}

// codeMaxBytesRequired says that the account wants every stream to have max_bytes (nats-server 2.15, errors.json).
const codeMaxBytesRequired = 10113

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

// violation is how the server reports what it denied, beside and late: the request itself just gets no answer, and nats.go keeps the last one in LastError.
var violation = regexp.MustCompile(`(?i)permissions violation for publish to "([^"]+)"`)

// trouble makes the error of a bucket that could not be asked. Where that is a matter of rights it names the subject to allow.
func (k *KV) trouble(err error) *BucketError {
	e := &BucketError{Bucket: k.cfg.Bucket, Err: err}
	last := k.js.Conn().LastError()
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(last, nats.ErrPermissionViolation) {
		return e
	}
	m := violation.FindStringSubmatch(last.Error())
	if m == nil {
		return e
	}
	for _, ours := range []string{".KV_" + k.cfg.Bucket, "$KV." + k.cfg.Bucket} {
		_, rest, found := strings.Cut(m[1], ours)
		switch {
		case found && rest == "":
			e.Allow, e.Err = m[1], last
		case found && rest[0] == '.':
			e.Allow, e.Err = strings.TrimSuffix(m[1], rest)+".>", last
		}
		if e.Allow != "" {
			return e
		}
	}
	return e
}
