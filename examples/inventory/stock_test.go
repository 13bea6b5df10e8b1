package main

import (
	"errors"
	"testing"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

func TestReserve(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		data any
		want error // nil: reserved
		left int   // of the mugs
	}{
		{"an order", order{ID: "1", SKU: "mug", Quantity: 2}, nil, 38},
		{"all there is", order{ID: "2", SKU: "mug", Quantity: 40}, nil, 0},
		{"no quantity means one", `{"order_id":"3","sku":"mug"}`, nil, 39},
		{"no id", `{"sku":"mug","quantity":1}`, nil, 39},
		{"more than there is", order{ID: "4", SKU: "mug", Quantity: 41}, errOutOfStock, 40},
		{"an article that we don't have", order{ID: "5", SKU: "piano", Quantity: 1}, errOutOfStock, 40},
		{"no article", `{"order_id":"6"}`, errNoArticle, 40},
		{"less than one", order{ID: "7", SKU: "mug", Quantity: -1}, errQuantity, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStock()
			err := ackfloor.JSON(s.reserve).Handle(t.Context(), testutil.Message("events.order_placed", c.data))
			_, permanent := errors.AsType[*ackfloor.PermanentError](err)
			if !errors.Is(err, c.want) || permanent != (c.want != nil) {
				t.Errorf("got %v (permanent: %v), want %v, which is permanent", err, permanent, c.want)
			}
			if s.left["mug"] != c.left {
				t.Errorf("%d mugs are left, want %d", s.left["mug"], c.left)
			}
		})
	}
}

func TestReserveRefusesWhatIsNoOrder(t *testing.T) {
	t.Parallel()
	err := ackfloor.JSON(newStock().reserve).Handle(t.Context(), testutil.Message("events.order_placed", "not JSON"))
	if _, ok := errors.AsType[*ackfloor.DecodeError](err); !ok {
		t.Fatalf("got %v, want a DecodeError", err)
	}
}

func TestReserveSideBySide(t *testing.T) {
	t.Parallel()
	s := newStock()
	results := make(chan error)
	for range 50 {
		go func() {
			results <- s.reserve(t.Context(), order{ID: "1", SKU: "mug", Quantity: 1}, testutil.Message("events.order_placed", nil))
		}()
	}
	refused := 0
	for range 50 {
		if err := <-results; err != nil {
			refused++
		}
	}
	if refused != 10 || s.left["mug"] != 0 {
		t.Errorf("%d of 50 orders were refused and %d mugs are left, want 10 and 0", refused, s.left["mug"])
	}
}
