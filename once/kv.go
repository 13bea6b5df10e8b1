package once

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/internal/kvbucket"
	"github.com/nats-io/nats.go/jetstream"
)

// InDoubt is what becomes of a message whose earlier call was broken off, so that it may have had its effect.
type InDoubt int

const (
	Repeat InDoubt = iota // it is handled again, and reported as a possible duplicate: an effect that must not be missed
	Refuse                // it is given up, with ErrInDoubt: an effect that must not be doubled
)

// KVConfig is what a KV can be told. The zero KVConfig is a good one.
type KVConfig struct {
	Bucket   string        // letters, digits, - and _; default ackfloor_once; made when it is missing
	TTL      time.Duration // how long a mark is kept, from a minute; default 7 days; a bucket that is there keeps its own
	Replicas int           // of a bucket that is made, 1 to 5; default 0: as many as the stream has, 1 where the user may not ask
	InDoubt  InDoubt       // Repeat or Refuse; default Repeat

	// OnDoubt is told of each message in doubt, before it is handled again or when it is given up. It is called from several goroutines at once; nil counts only.
	OnDoubt func(Doubt)

	// OnError is told of what fails no message: a bucket that forgets sooner than TTL says. nil keeps quiet.
	OnError func(error)
}

// Doubt is a message that may have had its effect.
type Doubt struct {
	Message *ackfloor.Message
	Since   time.Time // when the call began that was broken off, or when it broke off by a panic; by the server's clock
	Refused bool      // it is given up; else it is handled again
}

const (
	defaultBucket = "ackfloor_once"
	withoutLimit  = 5 * time.Minute // one call, where ctx has no deadline
)

// KV can't promise that an effect happens once: a process that dies between the effect and its mark leaves a message of which nobody knows. What it promises is that
// this is noticed: such a message is handled again and reported, or given up, as KVConfig.InDoubt says. Everything else that comes again within TTL is skipped.
//
// Before the handler is called, a mark says that a call is running; behind it, that the message is done, or that it failed. Marks are written by compare-and-set, so
// that of two processes with one message one calls its handler. A running mark holds off others until the call's deadline, the handle timeout, has passed, and two seconds
// more; a process that finds one earlier returns ErrBusy, to come back then, which costs an attempt. So after a crash the messages that were running wait for the
// handle timeout: make it short. A handler that goes on behind its deadline is not protected.
//
// A handler's error says that the effect was not made, or may be made again: the next call is not in doubt. One that can't tell, as behind a request without
// an answer, returns Permanent where the effect must not be doubled. A panic leaves doubt.
//
// While the bucket can't be reached nothing is handled: a message whose mark can't be written comes back as a Pause, which charges no attempt. Use one KV for all
// handlers on a connection; it may wrap several, of several consumers. Make one with NewKV.
type KV struct {
	js      jetstream.JetStream
	cfg     KVConfig
	found   atomic.Pointer[jetstream.KeyValue]
	opening chan struct{} // taken by who finds or makes the bucket
	memory  memory

	done, skipped, possible, refused, busy, notNoted atomic.Uint64
}

// KVStats are the counters of a KV since it was made. They only grow.
type KVStats struct {
	Done               uint64 // messages whose effect was made and noted
	Skipped            uint64 // messages that had been done before: acknowledged, and no handler called
	PossibleDuplicates uint64 // messages in doubt that were handled again
	Refused            uint64 // messages in doubt that were given up
	Busy               uint64 // messages that another process had begun with: they come back
	NotNoted           uint64 // effects that were made but could not be noted: possible duplicates to come
}

// NewKV makes a KV on js, which may be on the worker's own connection: jetstream.New(nc). A wrong configuration is reported as a *ConfigError, with all its faults. The
// bucket is not looked for until the first message, or Prepare.
func NewKV(js jetstream.JetStream, cfg KVConfig) (*KV, error) {
	if cfg.Bucket == "" {
		cfg.Bucket = defaultBucket
	}
	if cfg.TTL == 0 {
		cfg.TTL = defaultKeep
	}
	if problems := cfg.problems(js); len(problems) > 0 {
		return nil, &ConfigError{Problems: problems}
	}
	return &KV{js: js, cfg: cfg, opening: make(chan struct{}, 1)}, nil
}

func (c KVConfig) problems(js jetstream.JetStream) (out []string) {
	if js == nil {
		out = append(out, "the JetStream is nil")
	}
	if !kvbucket.Plain(c.Bucket) {
		out = append(out, fmt.Sprintf("Bucket is %q: it takes letters, digits, - and _", c.Bucket))
	}
	if c.TTL < time.Minute {
		out = append(out, fmt.Sprintf("TTL is %v: it takes a minute or more", c.TTL))
	}
	if c.Replicas < 0 || c.Replicas > 5 {
		out = append(out, fmt.Sprintf("Replicas is %d: it takes 1 to 5, or 0 for as many as the stream has", c.Replicas))
	}
	if c.InDoubt != Repeat && c.InDoubt != Refuse {
		out = append(out, fmt.Sprintf("InDoubt is %d: it takes Repeat or Refuse", c.InDoubt))
	}
	return out
}

// Stats are the counters at this moment.
func (k *KV) Stats() KVStats {
	return KVStats{Done: k.done.Load(), Skipped: k.skipped.Load(), PossibleDuplicates: k.possible.Load(), Refused: k.refused.Load(), Busy: k.busy.Load(),
		NotNoted: k.notNoted.Load()}
}

// Wrap is an ackfloor.Middleware. What is inside of it runs only where the handler does; what is outside, for messages that are skipped too.
func (k *KV) Wrap(next ackfloor.Handler) ackfloor.Handler {
	return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error { return k.handle(ctx, m, next) })
}

func (k *KV) handle(ctx context.Context, m *ackfloor.Message, next ackfloor.Handler) error {
	if _, ok := ctx.Deadline(); !ok { // a mark needs one
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, withoutLimit)
		defer cancel()
	}
	kv, err := k.bucket(ctx, m.Stream)
	if err != nil {
		return k.unreachable(ctx, err)
	}
	c := &claim{kv: kv, m: m, key: markKey(m), call: newCall()}
	if k.memory.isDone(c.key) { // and could not be noted
		return k.finish(ctx, c, &k.skipped)
	}
	mine, err := k.take(ctx, c)
	switch {
	case err != nil:
		return err
	case !mine:
		k.skipped.Add(1)
		return nil
	}
	return k.run(ctx, c, next)
}

// run calls the handler and writes down how that ended, whatever it does: return, panic, or end its goroutine.
func (k *KV) run(ctx context.Context, c *claim, next ackfloor.Handler) (err error) {
	returned := false
	defer func() {
		if !returned {
			_ = k.release(ctx, c, broken) // where that can't be written the mark says running, which leaves the same doubt, later
		}
	}()
	err = next.Handle(ctx, c.m)
	returned = true
	if err == nil {
		return k.finish(ctx, c, &k.done)
	}
	if unwritten := k.release(ctx, c, failed); unwritten != nil {
		return errors.Join(err, unwritten) // which keeps what err asks for
	}
	return err
}

// finish notes that the effect was made. Where that can't be done it is kept in mind, and an error.
func (k *KV) finish(ctx context.Context, c *claim, count *atomic.Uint64) error {
	if err := k.note(ctx, c); err != nil {
		if !k.memory.keepDone(c.key) {
			k.notNoted.Add(1)
		}
		return fmt.Errorf("%w: %w", ErrNotNoted, k.trouble(err))
	}
	k.memory.noted(c.key)
	count.Add(1)
	return nil
}
