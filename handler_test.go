package ackfloor_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/ackfloor/ackfloor"
	"github.com/nats-io/nats.go"
)

func TestChainOrder(t *testing.T) {
	var calls []string
	mw := func(name string) ackfloor.Middleware {
		return func(next ackfloor.Handler) ackfloor.Handler {
			return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
				calls = append(calls, name+" in")
				err := next.Handle(ctx, m)
				calls = append(calls, name+" out")
				return err
			})
		}
	}
	h := ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
		calls = append(calls, "handler")
		return errCard
	})
	chained := ackfloor.Chain(h, mw("a"), mw("b"))
	for range 2 { // a second message takes the same way
		calls = nil
		if err := chained.Handle(t.Context(), &ackfloor.Message{}); !errors.Is(err, errCard) {
			t.Errorf("the handler's error is lost: %v", err)
		}
		if want := []string{"a in", "b in", "handler", "b out", "a out"}; !slices.Equal(calls, want) {
			t.Errorf("called %v, want %v", calls, want)
		}
	}
}

func TestChainOfNone(t *testing.T) {
	h := ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { return errCard })
	if err := ackfloor.Chain(h).Handle(t.Context(), nil); !errors.Is(err, errCard) {
		t.Errorf("got %v, want the handler's answer", err)
	}
}

func TestID(t *testing.T) {
	for name, tc := range map[string]struct {
		header nats.Header
		want   string
	}{
		"no header":            {nil, "ORDERS:18446744073709551615"},
		"no id in the header":  {nats.Header{"Traceparent": {"00-1"}}, "ORDERS:18446744073709551615"},
		"an empty id":          {nats.Header{"Nats-Msg-Id": {""}}, "ORDERS:18446744073709551615"},
		"the publisher's id":   {nats.Header{"Nats-Msg-Id": {"order-7"}}, "order-7"},
		"the first of several": {nats.Header{"Nats-Msg-Id": {"order-7", "order-8"}}, "order-7"},
	} {
		m := &ackfloor.Message{Header: tc.header, Stream: "ORDERS", Consumer: "billing", Sequence: math.MaxUint64, Attempt: 3}
		if got := m.ID(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
