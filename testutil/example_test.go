package testutil_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

type order struct {
	ID    string
	Count int
}

// A handler is tested by calling it with a message.
func ExampleMessage() {
	handler := ackfloor.JSON(func(_ context.Context, o order, m *ackfloor.Message) error {
		if o.Count == 0 {
			return ackfloor.Permanent(fmt.Errorf("order %s of attempt %d is empty", o.ID, m.Attempt))
		}
		return nil
	})
	ctx := context.Background()
	fmt.Println(handler.Handle(ctx, testutil.Message("orders.new", order{ID: "A7", Count: 2})))
	fmt.Println(handler.Handle(ctx, testutil.Message("orders.new", order{ID: "A8"}, testutil.Attempt(3))))
	// Output:
	// <nil>
	// order A8 of attempt 3 is empty
}

// A scripted handler stands for the real one when middleware is tested.
func ExampleFail() {
	attempts := func(h ackfloor.Handler) ackfloor.Handler { // the middleware under test
		return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
			if err := h.Handle(ctx, m); err != nil {
				return fmt.Errorf("attempt %d: %w", m.Attempt, err)
			}
			return nil
		})
	}
	handler := attempts(testutil.Fail(1, errors.New("the stock is locked")))
	for attempt := 1; attempt <= 2; attempt++ {
		fmt.Println(handler.Handle(context.Background(), testutil.Message("stock.take", "7", testutil.Attempt(attempt))))
	}
	// Output:
	// attempt 1: the stock is locked
	// <nil>
}

// A Recorder around a handler tells afterwards how it was called.
func ExampleRecorder() {
	var calls testutil.Recorder
	handler := calls.Wrap(testutil.Fail(1, errors.New("not now")))
	for _, sequence := range []uint64{4, 5, 4} {
		_ = handler.Handle(context.Background(), testutil.Message("events.x", nil, testutil.Sequence(sequence)))
	}
	fmt.Println(calls.Sequences(), calls.Distinct(), calls.Count(4))
	for _, call := range calls.Calls() {
		fmt.Println(call.Sequence, call.Err)
	}
	// Output:
	// [4 5 4] 2 2
	// 4 not now
	// 5 not now
	// 4 <nil>
}

// Time is virtual in a bubble: an ack wait passes at once.
func ExampleBubble() {
	test := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := testutil.Bubble(t)
			s.Events(t, 1)
			s.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "billing", AckWait: 30 * time.Second})
			// … start what is to be tested, with nats.Connect("", s.InProcess())
			time.Sleep(30 * time.Second)
			s.WaitInfo(t, "EVENTS", "billing", time.Second, "event 0 to be delivered again",
				func(i *jetstream.ConsumerInfo) bool { return i.NumRedelivered == 1 })
		})
	}
	_ = test // func TestBilling(t *testing.T)
}
