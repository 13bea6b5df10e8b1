package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
)

// from is where reading begins: at a sequence, or at what was stored at a time or later.
type from struct {
	seq  uint64
	time time.Time
}

// Bounds of a batch: what is read ahead.
const (
	batchMessages = 1024
	batchBytes    = 4 << 20
)

// request is what a get of the next messages on a subject says.
func (f from) request(filter string) map[string]any {
	r := map[string]any{"next_by_subj": filter}
	if f.seq == 0 && !f.time.IsZero() {
		r["start_time"] = f.time.UTC().Format(time.RFC3339Nano)
	} else {
		r["seq"] = max(1, f.seq)
	}
	return r
}

// walk reads what is stored on a subject, up to and with the sequence to, without a consumer, so that nothing is changed or left behind. direct
// tells whether the stream allows direct gets; without them its leader is asked for one message after the other.
func (c client) walk(ctx context.Context, filter string, f from, to uint64, direct bool) iter.Seq2[*stored, error] {
	return func(yield func(*stored, error) bool) {
		for f.seq <= to {
			var batch []*stored
			more := true
			err := again(ctx, tries, func() (err error) {
				if direct {
					batch, more, err = c.batch(ctx, f, filter)
				} else {
					batch, more, err = c.one(ctx, f, filter)
				}
				return err
			})
			if err != nil {
				yield(nil, fmt.Errorf("deadletter: reading stream %q: %w", c.stream, err))
				return
			}
			for _, s := range batch {
				if s.sequence > to {
					return
				}
				f.seq = s.sequence + 1
				if !yield(s, nil) {
					return
				}
			}
			if !more || len(batch) == 0 {
				return
			}
		}
	}
}

// one reads one message from the leader.
func (c client) one(ctx context.Context, f from, filter string) ([]*stored, bool, error) {
	m, err := c.fromLeader(ctx, f.request(filter))
	if errors.Is(err, errNone) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return []*stored{m}, true, nil
}

// batch reads the next messages, by a direct get of many (of nats-server 2.11). more is false once the stream has no others. What came before
// a batch broke off is returned without an error.
func (c client) batch(ctx context.Context, f from, filter string) (out []*stored, more bool, err error) {
	defer func() {
		if len(out) > 0 {
			err = nil
		}
	}()
	subject := c.prefix + "DIRECT.GET." + c.stream
	request := f.request(filter)
	request["batch"], request["max_bytes"] = batchMessages, batchBytes
	body, err := json.Marshal(request)
	if err != nil {
		return nil, false, err
	}
	before := c.nc.LastError()
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, false, err
	}
	defer sub.Unsubscribe()
	if err := c.nc.PublishRequest(subject, inbox, body); err != nil {
		return nil, false, err
	}
	for {
		m, err := c.next(ctx, sub, subject, before)
		if err != nil {
			return out, true, err
		}
		s, over, err := direct(m)
		switch {
		case errors.Is(err, errNone):
			return out, false, nil
		case err != nil:
			return out, true, err
		case over != nil:
			return out, over.pending > 0, nil
		}
		if out = append(out, s); len(m.Header["Nats-Num-Pending"]) == 0 {
			return out, true, nil // a server before 2.11 answers with one message
		}
	}
}

// next waits for one message of a batch.
func (c client) next(ctx context.Context, sub *nats.Subscription, subject string, before error) (*nats.Msg, error) {
	for waited := time.Duration(0); waited < publishWait; waited += lookDenied {
		step, cancel := context.WithTimeout(ctx, lookDenied)
		m, err := sub.NextMsgWithContext(step)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return m, err
		}
		if last := c.nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) && last != before {
			if d := denial(c.nc, last, subject, subject); d != nil {
				return nil, d
			}
		}
	}
	return nil, fmt.Errorf("no answer on %q: %w", subject, context.DeadlineExceeded)
}
