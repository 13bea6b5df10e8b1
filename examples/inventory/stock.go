package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/examples/internal/shop"
)

// order is the payload of events.order_placed.
type order struct {
	ID       string `json:"order_id"`
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"` // 1 where it is missing
}

var (
	errNoArticle  = errors.New("the order names no article (sku)")
	errQuantity   = errors.New("the quantity is below 1")
	errOutOfStock = errors.New("out of stock")
)

// stock is what the shop has, in memory: a new process begins with full shelves.
type stock struct {
	mu   sync.Mutex // handlers run side by side
	left map[string]int
}

func newStock() *stock {
	return &stock{left: map[string]int{"mug": 40, "teapot": 12, "kettle": 5}}
}

// reserve takes an order's articles off the shelf. No retry fills a shelf, so out of stock is Permanent.
func (s *stock) reserve(_ context.Context, o order, m *ackfloor.Message) error {
	id := cmp.Or(o.ID, m.ID())
	quantity := cmp.Or(o.Quantity, 1)
	left, err := s.take(o.SKU, quantity)
	if err != nil {
		return ackfloor.Permanent(fmt.Errorf("order %q: %d x %q: %w", id, quantity, o.SKU, err))
	}
	shop.Show(m, "order %s: reserved %d x %s, %d left", id, quantity, o.SKU, left)
	return nil
}

func (s *stock) take(sku string, quantity int) (left int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case sku == "":
		return 0, errNoArticle
	case quantity < 1:
		return 0, errQuantity
	case quantity > s.left[sku]:
		return 0, errOutOfStock
	}
	s.left[sku] -= quantity
	return s.left[sku], nil
}
