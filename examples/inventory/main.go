// Command inventory reserves stock for the orders of the shop. It takes every order that the stream holds, from the first.
package main

import (
	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/examples/internal/shop"
)

func main() {
	s := newStock()
	shop.Main(shop.Service{
		Consumer: "inventory",
		Filter:   "events.order_placed",
		Start:    "all",
		Handler:  ackfloor.JSON(s.reserve),
	})
}
