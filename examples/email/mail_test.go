package main

import (
	"errors"
	"testing"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

func TestSubject(t *testing.T) {
	t.Parallel()
	order := testutil.Message("events.order_placed", nil, testutil.Stream("EVENTS"), testutil.Sequence(9))
	if got := subject(customer{Order: "1001"}, order); got != "Your order 1001" {
		t.Errorf("an order: %q", got)
	}
	if got := subject(customer{}, order); got != "Your order EVENTS:9" {
		t.Errorf("an order without a number: %q", got)
	}
	if got := subject(customer{User: "ada"}, testutil.Message("events.user_registered", nil)); got != "Welcome, ada" {
		t.Errorf("a new user: %q", got)
	}
}

func TestSend(t *testing.T) {
	t.Parallel()
	for data, ok := range map[string]bool{
		`{"email":"ada@example.com","order_id":"1001"}`:                 true,
		`{"email":"Ada <ada@example.com>","order_id":"1001"}`:           true,
		`{"order_id":"1001"}`:                                           false,
		`{"email":"ada"}`:                                               false,
		`{"email":"ada@example.com\r\nBcc: eve@example.com"}`:           false,
		`{"email":["ada@example.com"]}`:                                 false,
		`{"email":"ada@example.com, grace@example.com","order_id":"1"}`: false,
	} {
		err := ackfloor.JSON(send).Handle(t.Context(), testutil.Message("events.order_placed", data))
		_, permanent := errors.AsType[*ackfloor.PermanentError](err)
		if (err == nil) != ok || permanent == ok {
			t.Errorf("%s: got %v (permanent: %v), want success: %v", data, err, permanent, ok)
		}
	}
}
