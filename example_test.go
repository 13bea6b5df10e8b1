package ackfloor_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackfloor/ackfloor"
)

func ExampleJSON() {
	type Order struct {
		ID    string
		Cents int
	}
	h := ackfloor.JSON(func(_ context.Context, o Order, m *ackfloor.Message) error {
		fmt.Printf("%s: order %s over %d cents\n", m.ID(), o.ID, o.Cents)
		return nil
	})

	ctx := context.Background()
	good := &ackfloor.Message{Subject: "orders.new", Stream: "ORDERS", Sequence: 41, Data: []byte(`{"ID":"a7","Cents":1250}`)}
	cut := &ackfloor.Message{Subject: "orders.new", Stream: "ORDERS", Sequence: 42, Data: []byte(`{"ID":"a8"`)}
	fmt.Println(h.Handle(ctx, good))
	fmt.Println(h.Handle(ctx, cut))
	// Output:
	// ORDERS:41: order a7 over 1250 cents
	// <nil>
	// ackfloor: can't be decoded: unexpected end of JSON input (payload of "orders.new", 10 bytes)
}

func ExamplePermanent() {
	errRefused := errors.New("card refused")
	pay := func(card string) error {
		switch card {
		case "stolen": // the same answer tomorrow
			return ackfloor.Permanent(errRefused)
		case "busy":
			return ackfloor.RetryAfter(time.Minute, errors.New("bank asks to wait"))
		}
		return nil
	}

	err := fmt.Errorf("order a7: %w", pay("stolen"))
	_, permanent := errors.AsType[*ackfloor.PermanentError](err)
	fmt.Println(err, "/ permanent:", permanent, "/ refused:", errors.Is(err, errRefused))

	err = fmt.Errorf("order a8: %w", pay("busy"))
	_, permanent = errors.AsType[*ackfloor.PermanentError](err)
	fmt.Println(err, "/ permanent:", permanent)
	// Output:
	// order a7: card refused / permanent: true / refused: true
	// order a8: bank asks to wait / permanent: false
}

func ExampleChain() {
	announce := func(what string) ackfloor.Middleware {
		return func(next ackfloor.Handler) ackfloor.Handler {
			return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
				fmt.Println(what, "begins", m.Subject)
				defer fmt.Println(what, "ends", m.Subject)
				return next.Handle(ctx, m)
			})
		}
	}
	work := ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
		fmt.Printf("handles %s\n", m.Data)
		return nil
	})

	h := ackfloor.Chain(work, announce("tracing"), announce("timing"))
	_ = h.Handle(context.Background(), &ackfloor.Message{Subject: "orders.new", Data: []byte("a7")})
	// Output:
	// tracing begins orders.new
	// timing begins orders.new
	// handles a7
	// timing ends orders.new
	// tracing ends orders.new
}
