package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// subjects are those of the server that a worker publishes to.
type subjects struct {
	prefix     string // of the JetStream API, with its dot
	info       string
	streamInfo string
	create     string
	next       string
	acks       string // what to allow for settlements
	replies    string // what the reply subject of a delivery to a client of the same server begins with
}

func newSubjects(c Config) subjects {
	p := c.Connection.apiPrefix()
	return subjects{
		prefix:     p,
		info:       p + "CONSUMER.INFO." + c.Stream + "." + c.Consumer,
		streamInfo: p + "STREAM.INFO." + c.Stream,
		create:     p + "CONSUMER.CREATE." + c.Stream + "." + c.Consumer,
		next:       p + "CONSUMER.MSG.NEXT." + c.Stream + "." + c.Consumer,
		acks:       "$JS.ACK." + c.Stream + "." + c.Consumer + ".>",
		replies:    "$JS.ACK." + c.Stream + "." + c.Consumer + ".",
	}
}

// The codes of the JetStream API that mean something here (nats-server 2.15, errors.json).
const (
	codeStreamNotFound   = 10059
	codeConsumerNotFound = 10014
)

// requestWait bounds one request to the API. During an election requests are not answered at all, so short and often.
const requestWait = 500 * time.Millisecond

// request asks the JetStream API and decodes the answer. A denied request is told apart from one that nobody answers.
func (r *Runner) request(ctx context.Context, subject string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	m, err := r.nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			if denied := r.denied(subject); denied != nil {
				return denied
			}
			return fmt.Errorf("no answer on %q", subject)
		}
		if errors.Is(err, nats.ErrNoResponders) {
			return fmt.Errorf("nobody answers on %q: %w", subject, err)
		}
		return err
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("the answer on %q can't be read: %w", subject, err)
	}
	if answer.Error != nil {
		return answer.Error
	}
	return json.Unmarshal(m.Data, into)
}

// jetStream is the client's own interface to the API, on the prefix that is configured.
func (r *Runner) jetStream() (jetstream.JetStream, error) {
	if r.subjects.prefix == defaultAPI {
		return jetstream.New(r.nc)
	}
	return jetstream.NewWithAPIPrefix(r.nc, strings.TrimSuffix(r.subjects.prefix, "."))
}

// replicas is how many copies the stream has, 1 where that is not known.
func (r *Runner) replicas() int {
	if r.bound.stream == nil {
		return 1
	}
	return max(1, r.bound.stream.Config.Replicas)
}

// apiCode returns the code of an error of the API, else 0.
func apiCode(err error) int {
	var e *jetstream.APIError
	if errors.As(err, &e) {
		return int(e.ErrorCode)
	}
	return 0
}

// consumerInfo reads the consumer.
func (r *Runner) consumerInfo(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	var info jetstream.ConsumerInfo
	if err := r.request(ctx, r.subjects.info, nil, &info); err != nil {
		return nil, err
	}
	return &info, nil
}

// lookAtConsumer asks whether the consumer that was bound is still there and still the same, before anything is pulled from it
// again. It returns false where there is no answer now.
func (r *Runner) lookAtConsumer() bool {
	info, err := r.consumerInfo(r.values)
	switch code := apiCode(err); {
	case code == codeConsumerNotFound || code == codeStreamNotFound:
		r.fail(fmt.Errorf("%w: %q on stream %q: %w", ErrConsumerDeleted, r.cfg.Consumer, r.cfg.Stream, err))
		return false
	case err != nil:
		var denied *PermissionError
		if errors.As(err, &denied) {
			r.fail(denied)
		}
		return false
	case info.Created.IsZero():
		return false // a leader that is shutting down answers with zeros
	case !info.Created.Equal(r.bound.info.Created):
		r.fail(fmt.Errorf("%w and created again: %q on stream %q was created at %s, now at %s", ErrConsumerDeleted, r.cfg.Consumer, r.cfg.Stream,
			r.bound.info.Created.Format(time.RFC3339Nano), info.Created.Format(time.RFC3339Nano)))
		return false
	}
	r.sawCursor(info)
	r.conf.forget(info.Delivered.Stream)
	r.ackWait.Store(int64(min(info.Config.AckWait, longest)))
	r.pull.mu.Lock()
	r.pull.limits = limitsOf(info.Config)
	now := r.clock.now()
	r.pull.suspect, r.pull.watched, r.pull.looked = false, now, now
	moved := r.pull.leaderLocked(info)
	r.pull.mu.Unlock()
	if moved { // while no pull was open, which would have been told
		r.settleBeforePull(settleFirst)
	}
	return true
}
