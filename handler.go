package ackfloor

import (
	"context"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Message is one delivery of a stored message. A Handler may keep it and read it for as long as it likes; it must not
// change it while the call is under way, since middleware reads the same value.
type Message struct {
	Subject   string      // the subject that it was published to
	Data      []byte      // the payload; empty, not nil-checked: an empty payload is a message too
	Header    nats.Header // nil when it was published without headers; keys are case-sensitive
	Stream    string      // the stream that holds it
	Consumer  string      // the durable consumer that delivered it
	Sequence  uint64      // its sequence in the stream, from 1
	Attempt   int         // 1 on the first; what counts as one is in the package documentation
	Published time.Time   // when the stream stored it, by the server's clock
	Pending   uint64      // messages behind this one when the server sent it
}

// ID names the message for ever: the publisher's Nats-Msg-Id where there is one, else "<stream>:<sequence>".
func (m *Message) ID() string {
	if ids := m.Header[nats.MsgIdHdr]; len(ids) > 0 && ids[0] != "" { // Header.Get panics on a key without values
		return ids[0]
	}
	return m.Stream + ":" + strconv.FormatUint(m.Sequence, 10)
}

// Handler does the work that a message asks for. What it returns decides what becomes of the message: see Permanent,
// RetryAfter and the table in the package documentation. It is called from several goroutines at once, never twice at
// the same time for one message of one stream by one Runner.
//
// ctx carries a deadline (the handle timeout) and lives through the drain's grace after the Runner was told to stop. When
// it ends, context.Cause tells why: ErrHandleTimeout, ErrStopping or ErrLeaseLost.
type Handler interface {
	Handle(ctx context.Context, m *Message) error
}

// HandlerFunc is a function that is a Handler.
type HandlerFunc func(ctx context.Context, m *Message) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, m *Message) error { return f(ctx, m) }

// Middleware wraps a Handler in another.
type Middleware func(Handler) Handler

// Chain wraps h in mw, the first outermost: Chain(h, a, b) calls a, which calls b, which calls h.
func Chain(h Handler, mw ...Middleware) Handler {
	for i := len(mw) - 1; i >= 0; i-- {
		h = mw[i](h)
	}
	return h
}
