package ackfloor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// DecodeError says that a payload is not what a typed handler takes. A typed handler returns it inside Permanent, since
// the same bytes decode no better the next time.
type DecodeError struct {
	Subject string // of the message
	Size    int    // of its payload, bytes
	Err     error  // the decoder's
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("ackfloor: can't be decoded: %v (payload of %q, %d bytes)", e.Err, e.Subject, e.Size)
}

// Unwrap returns the decoder's error.
func (e *DecodeError) Unwrap() error { return e.Err }

// JSON makes a Handler that decodes the payload as JSON into a T and calls fn. A payload that can't be decoded is
// Permanent, with a *DecodeError; fn is not called. Unknown fields are ignored, as encoding/json does. A payload that is not
// valid UTF-8 can't be decoded: encoding/json would put U+FFFD in the place of the bad bytes and say nothing, so that fn
// would work on something that nobody sent.
func JSON[T any](fn func(ctx context.Context, v T, m *Message) error) Handler {
	return Typed(func(data []byte, v *T) error {
		if !utf8.Valid(data) {
			return errNotUTF8
		}
		return json.Unmarshal(data, v)
	}, fn)
}

var errNotUTF8 = errors.New("it is not valid UTF-8")

// Typed makes a Handler that decodes the payload with decode and calls fn: JSON for any other encoding. A panic of decode is
// not caught here: it is a failure like any other panic of a handler.
func Typed[T any](decode func(data []byte, v *T) error, fn func(ctx context.Context, v T, m *Message) error) Handler {
	return HandlerFunc(func(ctx context.Context, m *Message) error {
		var v T
		if err := decode(m.Data, &v); err != nil {
			return Permanent(&DecodeError{Subject: m.Subject, Size: len(m.Data), Err: err})
		}
		return fn(ctx, v, m)
	})
}
