package deadletter

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

// How long an answer may take. During an election requests are not answered at all, so short and often.
const (
	requestWait = 500 * time.Millisecond
	publishWait = 2 * time.Second // to a stream of replicas
	between     = 100 * time.Millisecond
	lookDenied  = 50 * time.Millisecond // how often a request that waits looks whether it was denied
	tries       = 5                     // of a read that is not answered
)

// client speaks to one dead-letter stream.
type client struct {
	nc     *nats.Conn
	prefix string // of the API, with its dot
	stream string
}

func newClient(nc *nats.Conn, stream, prefix string) client {
	if prefix == "" {
		prefix = jetstream.DefaultAPIPrefix
	}
	return client{nc: nc, prefix: strings.TrimSuffix(prefix, ".") + ".", stream: stream}
}

// send makes one request. A denied one is told apart from one that nobody answers, and as soon as the server has said so; allow is what would
// have to be allowed.
func (c client) send(ctx context.Context, m *nats.Msg, allow string, wait time.Duration) (*nats.Msg, error) {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	before := c.nc.LastError()
	fresh := func() *PermissionError {
		if err := c.nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) && err != before {
			return denial(c.nc, err, m.Subject, allow)
		}
		return nil
	}
	var look *time.Timer
	look = time.AfterFunc(time.Hour, func() {
		if ctx.Err() == nil && fresh() == nil {
			look.Reset(lookDenied)
			return
		}
		cancel()
	})
	look.Reset(lookDenied)
	defer look.Stop()
	answer, err := c.nc.RequestMsgWithContext(ctx, m)
	if err == nil || ctx.Err() == nil {
		return answer, err
	}
	if d := fresh(); d != nil {
		return nil, d
	}
	if caller.Err() == nil {
		// What was said before counts too once nothing was said to this one: LastError keeps one error, for all who use the connection.
		if d := denial(c.nc, c.nc.LastError(), m.Subject, allow); d != nil {
			return nil, d
		}
	}
	return nil, fmt.Errorf("no answer on %q: %w", m.Subject, err)
}

// ask makes one request to the API, on a subject without the prefix, and decodes the answer into a value.
func (c client) ask(ctx context.Context, subject string, body, into any) error {
	m := nats.NewMsg(c.prefix + subject)
	if body != nil {
		var err error
		if m.Data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	answer, err := c.send(ctx, m, m.Subject, requestWait)
	if err != nil {
		return err
	}
	return read(answer, into)
}

// read decodes an answer of the API.
func read(answer *nats.Msg, into any) error {
	var failure struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &failure); err != nil {
		return fmt.Errorf("the answer can't be read: %w", err)
	}
	if failure.Error != nil {
		return failure.Error
	}
	return json.Unmarshal(answer.Data, into)
}

// again calls f until it answers: n times, or as often as ctx allows if n is 0. What the server has decided is an answer.
func again(ctx context.Context, n int, f func() error) error {
	var last error
	for i := 1; ; i++ {
		err := f()
		if ctx.Err() != nil && last != nil && !decided(err) {
			return fmt.Errorf("%w (%w)", last, context.Cause(ctx)) // what was said before tells more than that the time is over
		}
		if decided(err) || ctx.Err() != nil || i == n {
			return err
		}
		last = err
		if err := pause(ctx, between); err != nil {
			return fmt.Errorf("%w (%w)", last, err)
		}
	}
}

// decided tells whether asking again can't change an answer soon.
func decided(err error) bool {
	var denied *PermissionError
	var last *final
	var api *jetstream.APIError
	switch {
	case err == nil, errors.Is(err, errNone), errors.As(err, &denied), errors.As(err, &last), errors.Is(err, nats.ErrConnectionClosed):
		return true
	case apiCode(err) == codeUnderWay:
		return false
	case errors.As(err, &api):
		return api.Code != 503 || api.ErrorCode == codeStoreFailed || api.ErrorCode == codeResources || api.ErrorCode == codeNotEnabled
	}
	return false
}

// final is an error that is not asked about again.
type final struct{ err error }

func (e *final) Error() string { return e.err.Error() }
func (e *final) Unwrap() error { return e.err }

// pause waits, or returns why it was cut short.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// conflict is the answer that something else is on the subject than was expected.
type conflict struct{ last uint64 } // 0 if nothing is

func (e *conflict) Error() string {
	return fmt.Sprintf("the last sequence on the subject is %d", e.last)
}

// publish stores a message on a subject if the last one there has the sequence expected, 0 for none. It returns the new sequence, or a
// *conflict, and asks again where there is no answer: if the first one did arrive, the second gets a *conflict.
func (c client) publish(ctx context.Context, subject, allow string, h nats.Header, data []byte, expected uint64) (uint64, error) {
	m := &nats.Msg{Subject: subject, Header: clone(h), Data: data}
	m.Header[jetstream.ExpectedStreamHeader] = []string{c.stream}
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{fmt.Sprint(expected)}
	var ack struct {
		Stream   string `json:"stream"`
		Sequence uint64 `json:"seq"`
	}
	err := again(ctx, tries, func() error {
		answer, err := c.send(ctx, m, allow, publishWait)
		switch {
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrMaxPayload):
			return &final{err}
		case err != nil:
			return err
		}
		if err := read(answer, &ack); err != nil {
			return err
		}
		if ack.Stream != c.stream {
			return &final{fmt.Errorf("answered by %q, which is not the stream", ack.Stream)}
		}
		return nil
	})
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == codeLastSequence {
		last := uint64(0)
		if _, e := fmt.Sscanf(api.Description, "wrong last sequence: %d", &last); e != nil {
			return 0, fmt.Errorf("deadletter: %q: the answer can't be read: %w", subject, err)
		}
		return 0, &conflict{last}
	}
	if err != nil {
		return 0, refused(subject, c.stream, err)
	}
	return ack.Sequence, nil
}
