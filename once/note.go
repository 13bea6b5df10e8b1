package once

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// note writes that the message is done, whoever's mark is there: done is a fact. It tries for as long as ctx lives, and for a moment behind its end.
func (k *KV) note(ctx context.Context, c *claim) error {
	return k.insist(ctx, func(ctx context.Context) (bool, error) { return k.write(ctx, c, done) })
}

// release writes how a call ended without an effect, if the mark is still this call's.
func (k *KV) release(ctx context.Context, c *claim, s state) error {
	err := k.insist(context.WithoutCancel(ctx), func(ctx context.Context) (bool, error) { return k.write(ctx, c, s) })
	if err == nil {
		return nil
	}
	if s == failed {
		k.memory.keepVoid(c.call)
	}
	return fmt.Errorf("once: that it failed could not be noted: %w", k.trouble(err))
}

// insist tries to write behind a call, whose ctx may have ended: for noteTail at the least, and for as long as ctx lives where it has a deadline.
func (k *KV) insist(ctx context.Context, write func(context.Context) (written bool, err error)) error {
	unending, began := context.WithoutCancel(ctx), time.Now()
	_, bounded := ctx.Deadline()
	for {
		written, err := write(unending)
		switch over := time.Since(began) >= noteTail && (!bounded || ctx.Err() != nil); {
		case written:
			return nil
		case err != nil && (over || k.trouble(err).Allow != ""):
			return err
		case over:
			return errLost
		}
		wait(unending, again)
	}
}

var errLost = errors.New("its mark changes all the time")

// write is claim.write. Where no stream answers, the bucket may have been deleted: it is looked for, or made, as before a call.
func (k *KV) write(ctx context.Context, c *claim, s state) (written bool, err error) {
	written, err = c.write(ctx, s)
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		k.found.Store(nil)
		if kv, again := k.bucket(ctx, c.m.Stream); again == nil {
			c.kv = kv
		}
	}
	return written, err
}

// write is one try to write a state over this call's mark. It returns false and no error where another write was faster.
func (c *claim) write(ctx context.Context, s state) (written bool, err error) {
	next := mark{State: s, Call: c.call, Replays: replays(c.m)}.encode()
	err = c.update(ctx, next, c.revision)
	if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return err == nil, err
	}
	e, err := c.get(ctx)
	if errors.Is(err, jetstream.ErrKeyNotFound) { // removed by hand, or too old
		err = c.create(ctx, next)
		if errors.Is(err, jetstream.ErrKeyExists) {
			return false, nil
		}
		return err == nil, err
	}
	if err != nil {
		return false, err
	}
	old, err := readMark(e.Value())
	readable := err == nil
	switch {
	case readable && old.State == done, readable && old.Call == c.call && old.State == s: // by a try before this one, or by another call
		return true, nil
	case s != done && (!readable || old.Call != c.call): // another's now
		return true, nil
	}
	c.revision = e.Revision()
	return false, nil
}

func (c *claim) create(ctx context.Context, value []byte) error {
	ctx, cancel := context.WithTimeout(ctx, tryWait)
	defer cancel()
	rev, err := c.kv.Create(ctx, c.key, value)
	if err == nil {
		c.revision = rev
	}
	return err
}

func (c *claim) update(ctx context.Context, value []byte, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, tryWait)
	defer cancel()
	rev, err := c.kv.Update(ctx, c.key, value, revision)
	if err == nil {
		c.revision = rev
	}
	return err
}

func (c *claim) get(ctx context.Context) (jetstream.KeyValueEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, tryWait)
	defer cancel()
	return c.kv.Get(ctx, c.key)
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
