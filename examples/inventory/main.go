// Command inventory reserves stock for the orders of the shop, in a database, and tells what became of each. It takes every order that the
// stream holds, from the first.
//
//	inventory                      works until SIGINT or SIGTERM
//	inventory -restock teapot=20   puts twenty teapots on the shelf, while it works or not
package main

import (
	"context"
	"os"
	"strings"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/examples/internal/shop"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/worker"
)

func main() {
	if len(os.Args) > 1 && strings.TrimLeft(os.Args[1], "-") == "restock" {
		os.Exit(restock(os.Args[2:]))
	}
	shop.Main(shop.Service{
		Consumer: "inventory",
		Filter:   "events.order_placed",
		Start:    "all",
		Defaults: map[string]string{"WORKER_HANDLE_TIMEOUT": "20s"}, // the database is given 10 s; see databaseLimit
		Open:     open,
	})
}

// open opens the database and puts the handler and the publisher of its outbox on it.
func open(ctx context.Context, e shop.Env) (shop.Work, error) {
	s, err := openStore(ctx, e.Dir, e.Config.StartupTimeout, e.Config.Concurrency, e.Say)
	if err != nil {
		return shop.Work{}, err
	}
	out := newOutbox(s, e.JS, e.Config.Stream, e.Config.Logger)
	r := &reserver{store: s, queued: out.notice}
	return shop.Work{
		Handler: ackfloor.JSON(r.handle),
		Config:  func(c *worker.Config) { c.Key = article }, // who orders an article first gets it first
		Parts:   []shutdown.Part{{Name: "outbox", Run: out.run}},
		Close:   s.close,
	}, nil
}
