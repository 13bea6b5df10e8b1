package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// stored is a message of the dead-letter stream.
type stored struct {
	subject  string
	sequence uint64
	time     time.Time
	header   nats.Header
	data     []byte
}

// errNone says that there is no such message.
var errNone = errors.New("deadletter: no message found")

// last reads the last message on a subject by a direct get, which may be allowed for some subjects only and which any replica answers, so it may
// be a moment behind; and from the leader where that can't be used, or found nothing.
func (c client) last(ctx context.Context, subject string) (*stored, error) {
	m, err := c.lastDirect(ctx, subject)
	if err == nil || ctx.Err() != nil {
		return m, err
	}
	m, errLeader := c.lastOfLeader(ctx, subject)
	var denied *PermissionError
	if errors.As(errLeader, &denied) && !errors.Is(err, nats.ErrNoResponders) {
		return nil, err // the first answer tells more: the narrower right to allow, or that nothing is there
	}
	return m, errLeader
}

func (c client) lastDirect(ctx context.Context, subject string) (*stored, error) {
	m := nats.NewMsg(c.prefix + "DIRECT.GET." + c.stream + "." + subject)
	var out *stored
	err := again(ctx, tries, func() error {
		answer, err := c.send(ctx, m, c.allowRead(subject), requestWait)
		if errors.Is(err, nats.ErrNoResponders) {
			return &final{err} // direct gets are not allowed by the stream, or it is not there
		}
		if err == nil {
			out, _, err = direct(answer)
		}
		return err
	})
	return out, err
}

// allowRead is what to allow for reading one message and all those of the same consumer.
func (c client) allowRead(subject string) string {
	if p, ok := parse(subject); ok && p.kind != replay {
		subject = "dlq." + p.stream + "." + p.consumer + ".>"
	}
	return c.prefix + "DIRECT.GET." + c.stream + "." + subject
}

func (c client) lastOfLeader(ctx context.Context, subject string) (*stored, error) {
	return c.fromLeader(ctx, map[string]any{"last_by_subj": subject})
}

// at reads the message with a sequence.
func (c client) at(ctx context.Context, seq uint64) (*stored, error) {
	return c.fromLeader(ctx, map[string]any{"seq": seq})
}

// fromLeader reads a message from the stream's leader, which is never behind.
func (c client) fromLeader(ctx context.Context, request map[string]any) (*stored, error) {
	var answer struct {
		Message *struct {
			Subject  string    `json:"subject"`
			Sequence uint64    `json:"seq"`
			Header   []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	err := again(ctx, tries, func() error { return c.ask(ctx, "STREAM.MSG.GET."+c.stream, request, &answer) })
	switch {
	case apiCode(err) == codeNoMessage:
		return nil, errNone
	case err != nil:
		return nil, err
	case answer.Message == nil:
		return nil, errors.New("deadletter: the answer has no message")
	}
	m := answer.Message
	out := &stored{subject: m.Subject, sequence: m.Sequence, time: m.Time, data: m.Data}
	if len(m.Header) > 0 {
		if out.header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			out.header = nil // a malformed block: a consumer gets it as none too
		}
	}
	return out, nil
}

// end of a batch of direct gets.
type end struct{ pending uint64 }

// direct reads the answer to a direct get: a message, the end of a batch, or an error. Of the headers that the server adds the last of a name
// counts, since they stand behind those of the message.
func direct(m *nats.Msg) (*stored, *end, error) {
	final := func(key string) string {
		vs := m.Header[key]
		if len(vs) == 0 {
			return ""
		}
		return vs[len(vs)-1]
	}
	if final("Nats-Subject") == "" || final("Nats-Sequence") == "" {
		switch status := final("Status"); status {
		case "404":
			return nil, nil, errNone
		case "204":
			n, err := strconv.ParseUint(final("Nats-Num-Pending"), 10, 64)
			return nil, &end{n}, err
		case "503":
			return nil, nil, nats.ErrNoResponders
		default:
			return nil, nil, fmt.Errorf("deadletter: a direct get was answered with %q %q", status, final("Description"))
		}
	}
	seq, err1 := strconv.ParseUint(final("Nats-Sequence"), 10, 64)
	t, err2 := time.Parse(time.RFC3339Nano, final("Nats-Time-Stamp"))
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, fmt.Errorf("deadletter: the answer to a direct get can't be read: %w", err)
	}
	return &stored{subject: final("Nats-Subject"), sequence: seq, time: t, header: m.Header, data: m.Data}, nil, nil
}
