package main

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/examples/internal/shop"
)

// event is the payload of events.page_loaded (page) and events.input_changed (field).
type event struct {
	Page  string `json:"page"`
	Field string `json:"field"`
}

var errNothing = errors.New("the event names neither a page nor a field")

// counts are the numbers since this process began.
type counts struct {
	mu sync.Mutex // handlers run side by side
	of map[string]int
}

func newCounts() *counts { return &counts{of: make(map[string]int)} }

func (c *counts) count(_ context.Context, e event, m *ackfloor.Message) error {
	what := cmp.Or(e.Page, e.Field)
	if what == "" {
		return ackfloor.Permanent(errNothing)
	}
	shop.Show(m, "%s: %d", what, c.add(m.Subject+" "+what))
	return nil
}

func (c *counts) add(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[key]++
	return c.of[key]
}
