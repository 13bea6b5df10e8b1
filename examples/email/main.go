// Command email writes to customers: on an order, and when they register. It took over at message 5; what came before was
// answered by its predecessor.
package main

import (
	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/examples/internal/shop"
)

func main() {
	shop.Main(shop.Service{
		Consumer: "email",
		Filter:   "events.order_placed,events.user_registered",
		Start:    "seq:5",
		Handler:  ackfloor.JSON(send),
	})
}
