package once

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	tries    = 3                      // to write a mark before the effect
	rounds   = 10                     // in which another write was faster
	again    = 100 * time.Millisecond // between two tries
	noteTail = 2 * time.Second        // behind the deadline, to note what was done until then; a running mark is believed for so much longer
	pause    = time.Second            // of the whole worker, for a bucket that can't be reached
)

// claim is one message that one call wants to handle.
type claim struct {
	kv       jetstream.KeyValue
	m        *ackfloor.Message
	key      string
	call     string
	revision uint64 // of this call's mark
	doubt    *Doubt // which the mark took over, if it was written
}

func newCall() string { return nats.NewInbox()[len(nats.InboxPrefix):] }

// step is what one try to take a message came to.
type step int

const (
	taken  step = iota + 1
	skip        // it is done
	refuse      // it is in doubt, and given up
	lost        // another write was faster: once more
)

// take writes the running mark. It returns false where the message is done, and an error where it must not be handled now.
func (k *KV) take(ctx context.Context, c *claim) (mine bool, err error) {
	failures := 0
	for range rounds {
		came, err := k.try(ctx, c)
		switch {
		case errors.Is(err, ErrBusy):
			k.busy.Add(1)
			return false, err
		case err != nil:
			if failures++; failures >= tries || ctx.Err() != nil || k.trouble(err).Allow != "" {
				k.memory.keepVoid(c.call) // a mark may still arrive
				k.found.Store(nil)        // the bucket may have been deleted
				return false, k.unreachable(ctx, k.trouble(err))
			}
		case came == skip:
			return false, nil
		case came == taken:
			k.reportDoubt(c, &k.possible)
			return true, nil
		case came == refuse:
			k.reportDoubt(c, &k.refused)
			return false, ackfloor.Permanent(ErrInDoubt)
		}
		wait(ctx, again)
	}
	k.memory.keepVoid(c.call)
	return false, ackfloor.RetryAfter(time.Second, fmt.Errorf("%w: %w", ErrBusy, errLost))
}

// try is one try. An error is that of a request, or ErrBusy.
func (k *KV) try(ctx context.Context, c *claim) (step, error) {
	err := c.create(ctx, c.running(ctx).encode())
	switch {
	case err == nil:
		c.doubt = nil
		return taken, nil
	case !errors.Is(err, jetstream.ErrKeyExists):
		return 0, err
	}
	e, err := c.get(ctx)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound): // it has just gone, or the answer was an old one
		return lost, nil
	case err != nil:
		return 0, err
	}
	old, err := readMark(e.Value())
	switch {
	case err != nil:
		return 0, fmt.Errorf("the mark %q can't be read: %w", c.key, err)
	case old.State == done:
		return skip, nil
	case old.Call == c.call: // written by a try before this one, whose answer was lost
		c.revision = e.Revision()
		if old.State == refused {
			return refuse, nil
		}
		return taken, nil
	}
	return k.takeOver(ctx, c, e, old)
}

// takeOver takes a message that somebody has begun with, if nobody can be at it any more.
func (k *KV) takeOver(ctx context.Context, c *claim, e jetstream.KeyValueEntry, old mark) (step, error) {
	doubt := old.State == broken || old.State == refused
	switch {
	case old.State != running:
	case k.memory.isVoid(old.Call):
		doubt = old.Doubt
	default:
		age, err := c.age(ctx, e)
		if err != nil {
			return 0, err
		}
		if left := old.Limit - age; left > 0 {
			return 0, ackfloor.RetryAfter(left+again, fmt.Errorf("%w %v ago and has %v for it", ErrBusy, age.Round(time.Millisecond), old.Limit))
		}
		doubt = true
	}
	next, came := c.running(ctx), taken
	c.doubt = nil
	if doubt {
		next.Doubt, c.doubt = true, &Doubt{Message: c.m, Since: e.Created()}
		// What was given up and then replayed is a message about which somebody has decided.
		if k.cfg.InDoubt == Refuse && (old.State != refused || replays(c.m) <= old.Replays) {
			next, came = mark{State: refused, Call: c.call, Replays: replays(c.m)}, refuse
			c.doubt.Refused = true
		}
	}
	err := c.update(ctx, next.encode(), e.Revision())
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return lost, nil
	}
	return came, err
}

// running is the mark of this call. Its limit is a duration, not a time: it is compared with an age by the server's clock, so that the clocks of workers don't
// matter.
func (c *claim) running(ctx context.Context) mark {
	deadline, _ := ctx.Deadline()
	return mark{State: running, Call: c.call, Limit: max(0, time.Until(deadline)) + noteTail, Replays: replays(c.m)}
}

// age is how old a mark is, by the server's clock.
func (c *claim) age(ctx context.Context, e jetstream.KeyValueEntry) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, tryWait)
	defer cancel()
	status, err := c.kv.Status(ctx)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	if s, ok := status.(*jetstream.KeyValueBucketStatus); ok && !s.StreamInfo().TimeStamp.IsZero() { // servers before 2.10 don't tell
		now = s.StreamInfo().TimeStamp
	}
	return now.Sub(e.Created()), nil
}

// reportDoubt tells of a message in doubt, now that its mark is written.
func (k *KV) reportDoubt(c *claim, count *atomic.Uint64) {
	if c.doubt == nil {
		return
	}
	count.Add(1)
	if k.cfg.OnDoubt != nil {
		k.cfg.OnDoubt(*c.doubt)
	}
}

// unreachable is what comes of a message whose mark can't be written before the effect: the bucket is out of order, not the message.
func (k *KV) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return ackfloor.Pause(pause, err)
}
