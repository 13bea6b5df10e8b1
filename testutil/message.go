package testutil

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ackfloor/ackfloor"
)

// MessageOption sets one thing of a Message.
type MessageOption func(*ackfloor.Message)

// Message makes a message as a Runner would hand it to a handler: data is a string or []byte as it is, nil for an empty
// payload, and anything else as JSON; it panics where that can't be encoded. Unless an option says otherwise it is the
// first delivery of sequence 1, of the stream TEST to the consumer "test", published now.
func Message(subject string, data any, opts ...MessageOption) *ackfloor.Message {
	m := &ackfloor.Message{
		Subject:   subject,
		Data:      payload(data),
		Stream:    "TEST",
		Consumer:  "test",
		Sequence:  1,
		Attempt:   1,
		Published: time.Now(),
	}
	for _, opt := range opts {
		opt(m)
	}
	return m
}

func payload(data any) []byte {
	switch d := data.(type) {
	case nil:
		return nil
	case string:
		return []byte(d)
	case []byte:
		return d
	}
	encoded, err := json.Marshal(data)
	if err != nil {
		panic(fmt.Sprintf("testutil.Message: a %T can't be encoded as JSON: %v", data, err))
	}
	return encoded
}

// Header adds a header; the key is kept as it is written, as NATS does.
func Header(key, value string) MessageOption {
	return func(m *ackfloor.Message) {
		if m.Header == nil {
			m.Header = nats.Header{}
		}
		m.Header[key] = append(m.Header[key], value)
	}
}

// Sequence sets the message's sequence in its stream.
func Sequence(n uint64) MessageOption { return func(m *ackfloor.Message) { m.Sequence = n } }

// Attempt sets which delivery it is; the first is 1.
func Attempt(n int) MessageOption { return func(m *ackfloor.Message) { m.Attempt = n } }

// Published sets when the stream stored it.
func Published(at time.Time) MessageOption { return func(m *ackfloor.Message) { m.Published = at } }

// Stream sets the stream's name.
func Stream(name string) MessageOption { return func(m *ackfloor.Message) { m.Stream = name } }

// Consumer sets the durable consumer's name.
func Consumer(name string) MessageOption { return func(m *ackfloor.Message) { m.Consumer = name } }
