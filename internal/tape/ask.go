package tape

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/internal/denied"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// How long an answer may take. A cluster waits 4 s for the consumers on its list that do not answer (nats-server 2.15, jsClusteredConsumerListRequest).
const (
	infoWait = 2 * time.Second
	listWait = 5 * time.Second
)

// named tells whether a name can stand in a subject as one token.
func named(s string) bool {
	return s != "" && !strings.ContainsAny(s, ".*> \t\r\n\f\x00")
}

// list reads all consumers, page by page. silent are those that the server knows of and could not ask.
func (r *Reader) list(ctx context.Context) (infos []*jetstream.ConsumerInfo, silent []string, err error) {
	for asked := map[string]bool{}; ; {
		var page struct {
			Total     int                       `json:"total"`
			Consumers []*jetstream.ConsumerInfo `json:"consumers"`
			Missing   []string                  `json:"missing"`
		}
		before := len(asked)
		if err := r.ask(ctx, "CONSUMER.LIST."+r.stream, map[string]int{"offset": before}, &page); err != nil {
			return nil, nil, err
		}
		for _, info := range page.Consumers {
			if info != nil {
				if info.Name == "" { // of one that is offline only its configuration is known
					info.Name = info.Config.Name
				}
				infos = append(infos, info)
				asked[info.Name] = true
			}
		}
		for _, name := range page.Missing { // some of them are among the others, too
			silent = append(silent, name)
			asked[name] = true
		}
		if len(asked) == before || len(asked) >= page.Total {
			return infos, silent, nil
		}
	}
}

// ask makes one request to the API, on a subject without the prefix, and decodes the answer into a value. One that was denied within the last minute is not made.
func (r *Reader) ask(ctx context.Context, subject string, body, into any) error {
	subject = r.prefix + subject
	if d, ok := r.denied[subject]; ok && time.Since(d.at) < deniedFor {
		return d.err
	}
	delete(r.denied, subject)
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	wait := infoWait
	if strings.HasPrefix(subject, r.prefix+"CONSUMER.LIST.") {
		wait = listWait
	}
	limited, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("%w: the server did not answer %q within %v", nats.ErrTimeout, subject, wait))
	defer cancel()
	answer, err := r.send(limited, subject, data)
	if errors.Is(err, nats.ErrPermissionViolation) {
		r.denied[subject] = denial{err, time.Now()}
	}
	if err != nil {
		return err
	}
	var failure struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer, &failure); err != nil {
		return fmt.Errorf("the answer to %q can't be read: %w", subject, err)
	}
	if failure.Error != nil {
		return failure.Error
	}
	return json.Unmarshal(answer, into)
}

// send makes a request and waits for the answer. A denied one is not answered, so a ping goes behind it: when that has come back, the server has said what it denies
// (nats.go keeps it in LastError), and nobody has to wait.
func (r *Reader) send(ctx context.Context, subject string, data []byte) ([]byte, error) {
	switch {
	case r.nc.IsClosed():
		return nil, nats.ErrConnectionClosed
	case !r.nc.IsConnected():
		return nil, nats.ErrDisconnected
	}
	before := r.nc.LastError()
	inbox := r.nc.NewInbox()
	sub, err := r.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := r.nc.PublishRequest(subject, inbox, data); err != nil {
		return nil, err
	}
	switch err := r.nc.FlushWithContext(ctx); {
	case errors.Is(err, nats.ErrConnectionClosed) && !r.nc.IsClosed(): // so it says where the connection is lost for a while, too
		return nil, nats.ErrDisconnected
	case err != nil:
		return nil, cause(ctx, err)
	}
	if last := r.nc.LastError(); last != before {
		if err := about(last, subject, inbox, denied.Inboxes(r.nc)); err != nil {
			return nil, err
		}
	}
	answer, err := sub.NextMsgWithContext(ctx)
	if err != nil {
		return nil, cause(ctx, err)
	}
	return answer.Data, nil
}

// cause says more than that a time is over.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// about tells whether the last word of the server was that this request, or its answer, is denied.
func about(last error, subject, inbox, inboxes string) error {
	what, publish, ok := denied.Of(last)
	switch {
	case !ok:
		return nil
	case publish && what == subject:
		return fmt.Errorf("%w: the user may not publish to %q", nats.ErrPermissionViolation, subject)
	case !publish && what == inbox:
		return fmt.Errorf("%w: the user may not subscribe to %q", nats.ErrPermissionViolation, inboxes+">")
	}
	return nil
}
