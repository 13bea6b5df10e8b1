package worker

import (
	"cmp"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/nats-io/nats.go"
)

// batches is how messages are handled together; nil: one by one.
type batches struct {
	handler ackfloor.BatchHandler
	size    int
	bytes   int
	linger  time.Duration
	alarm   *alarm // of the loop that ends the wait for a batch to fill
	filled  int    // bytes that have come since a batch was taken; guarded by buffer.mu
}

// NewBatch makes a Runner that handles messages in batches: up to Config.BatchSize messages or Config.BatchBytes of payload, or what has come when the first has
// waited for Config.BatchLinger. Config.Concurrency is how many batches are handled at once. The rest is as with New.
func NewBatch(nc *nats.Conn, cfg Config, h ackfloor.BatchHandler) (*Runner, error) {
	filled, err := cfg.withDefaults()
	if err != nil {
		return nil, &ConfigError{Problems: []string{err.Error()}}
	}
	var problems []string
	if filled.Key != nil {
		problems = append(problems, "Key and batches can't be combined: a batch would hold several messages of a key; sort them out in the handler, or handle one by one")
	}
	if filled.Gate != nil {
		problems = append(problems, "Gate and batches can't be combined: a gate lets messages through one by one; wait in the handler, whose time the handle timeout limits")
	}
	f, ok := h.(ackfloor.BatchHandlerFunc)
	if h == nil || ok && f == nil {
		problems = append(problems, "the handler is nil: give the function or the value that handles a batch")
	}
	if len(problems) > 0 {
		return nil, &ConfigError{Problems: problems}
	}
	if filled.MaxAckPending == 0 {
		filled.MaxAckPending = max(1000, filled.BatchSize*(filled.Concurrency+2))
	}
	r, err := New(nc, filled, ofOne{h})
	if err != nil {
		return nil, err
	}
	r.batch = &batches{handler: h, size: r.cfg.BatchSize, bytes: r.cfg.BatchBytes, linger: r.cfg.BatchLinger, alarm: newAlarm()}
	return r, nil
}

// ofOne handles a message as a batch of one: a replay.
type ofOne struct{ next ackfloor.BatchHandler }

// width is how many messages handlers may have at once.
func (r *Runner) width() int {
	if r.batch == nil {
		return r.cfg.Concurrency
	}
	return r.cfg.Concurrency * r.batch.size
}

// inSlotsOnly tells whether the reader never calls the handler itself.
func (r *Runner) inSlotsOnly() bool { return r.cfg.Gate != nil || r.batch != nil }

// fillLocked is behind a message that has joined the queue: it wakes a slot for a batch that is full, and sees to it that one which does not fill is not
// waited for longer than it should.
func (r *Runner) fillLocked(d *delivery) {
	b := r.buf
	r.batch.filled += len(d.msg.Data)
	if r.fullLocked() || b.special {
		b.more.Signal()
	} else if b.queue.len() == 1 {
		r.batch.alarm.by(d.received + r.batch.linger)
	}
}

// fullLocked tells whether a batch need not wait for more: it is full, or no more come while it waits.
func (r *Runner) fullLocked() bool {
	b := r.buf
	most := r.allowedLocked(cmp.Or(r.pull.limits.capacity, b.held.len()+1))
	return b.queue.len() >= r.batch.size || r.batch.filled >= r.batch.bytes || b.held.len() >= most
}

// tendBatch wakes the slots when a batch has waited long enough.
func (r *Runner) tendBatch(now time.Duration) time.Duration {
	b := r.buf
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.queue.first()
	if first == nil {
		return never
	}
	if at := first.received + r.batch.linger; now < at {
		return at
	}
	b.more.Broadcast()
	return now + r.batch.linger + time.Millisecond // where all slots are busy
}

// takeBatch waits for a batch and marks its messages as running. It returns nil when nothing more will come.
func (r *Runner) takeBatch() []*delivery {
	b := r.buf
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		now := r.clock.now()
		batch := r.batchLocked(now)
		for i, d := range batch {
			d.startLocked(now, b.limit)
			b.running++
			if d.beside = i > 0; d.beside {
				b.beside++
			}
		}
		if len(batch) > 0 {
			if first := b.queue.first(); first != nil {
				r.batch.alarm.by(first.received + r.batch.linger)
			}
			return batch
		}
		if b.closed && b.queue.len()+b.aside.len() == 0 {
			b.more.Broadcast()
			return nil
		}
		if first := b.queue.first(); first != nil && now < first.received+r.batch.linger { // which may have come by another way than the stream: a retry
			r.batch.alarm.by(first.received + r.batch.linger)
		}
		b.idle++
		b.more.Wait()
		b.idle--
		if b.waking > 0 {
			b.waking--
		}
	}
}

// batchLocked takes the messages of the next batch, if it is full, or has waited long enough, or nothing more will come. In a pause, or for a suspect, it is one message.
func (r *Runner) batchLocked(now time.Duration) (out []*delivery) {
	b, limit := r.buf, r.batch
	if b.special && (b.lone != nil || b.pause != nil || b.shy > 0 || b.aside.len() > 0) {
		if d := b.specialLocked(now); d != nil {
			return []*delivery{d}
		}
		if b.special {
			return nil
		}
	}
	if b.slotsTakenLocked() >= b.slots || b.guestsTurnLocked() {
		return nil
	}
	first := b.queue.first()
	if first == nil || !r.fullLocked() && now < first.received+limit.linger && !b.closed {
		return nil
	}
	b.ours = false
	most, bytes := limit.size, 0
	for d := b.queue.first(); d != nil; d = b.queue.first() {
		if d.gone {
			b.queue.pop()
			continue
		}
		most = min(most, limit.sizeAt(d.msg.Attempt))
		if bytes += len(d.msg.Data); len(out) > 0 && (len(out) >= most || bytes > limit.bytes) {
			break
		}
		out = append(out, b.queue.pop())
	}
	limit.filled = max(0, limit.filled-bytes)
	if b.queue.len() == 0 {
		limit.filled = 0
	}
	return out
}

// sizeAt is how large a batch may be that has a message on this attempt in it: a quarter of what it was on the attempt before, since what failed with
// a whole batch may have spoiled it.
func (l *batches) sizeAt(attempt int) int {
	size := l.size
	for ; attempt > 1 && size > 1; attempt-- {
		size /= 4
	}
	return max(1, size)
}

// sameError is the error of a batch, of all its messages but the first: it is logged once.
type sameError struct{ error }

func (e *sameError) Unwrap() error { return e.error }

func isSame(err error) bool {
	_, same := err.(*sameError) // no more is asked of it: a method of a user's error may panic
	return same
}
