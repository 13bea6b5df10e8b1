// Command analytics counts which pages are loaded and which inputs are filled in, since the beginning of 2026.
package main

import (
	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/examples/internal/shop"
)

func main() {
	c := newCounts()
	shop.Main(shop.Service{
		Consumer: "analytics",
		Filter:   "events.page_loaded,events.input_changed",
		Start:    "time:2026-01-01T00:00:00Z",
		Handler:  ackfloor.JSON(c.count),
	})
}
