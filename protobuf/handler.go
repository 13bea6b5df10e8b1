package protobuf

import (
	"context"
	"fmt"

	"github.com/ackfloor/ackfloor"
	"google.golang.org/protobuf/proto"
)

// Pointer is a pointer to a generated message M: *orderpb.Order for orderpb.Order. It is never written out where Handler is called.
type Pointer[M any] interface {
	*M
	proto.Message
}

// Handler makes a Handler that decodes the payload into a new T and calls fn, which may keep it. A payload that can't be decoded is Permanent,
// with an *ackfloor.DecodeError. T is a generated type: Handler panics
// at once with *dynamicpb.Message, a new one of which can't know its fields; use ackfloor.Typed for that.
func Handler[T Pointer[M], M any](fn func(ctx context.Context, v T, m *ackfloor.Message) error) ackfloor.Handler {
	return HandlerWith(Options{}, fn)
}

// HandlerWith is Handler with Options.
func HandlerWith[T Pointer[M], M any](o Options, fn func(ctx context.Context, v T, m *ackfloor.Message) error) ackfloor.Handler {
	if T(new(M)).ProtoReflect().Descriptor() == nil {
		panic(fmt.Sprintf("protobuf: a new %T has no descriptor: use a generated type, or ackfloor.Typed", T(nil)))
	}
	return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		v := T(new(M))
		if err := o.decode(m, v); err != nil {
			return ackfloor.Permanent(&ackfloor.DecodeError{Subject: m.Subject, Size: len(m.Data), Err: err})
		}
		return fn(ctx, v, m)
	})
}
