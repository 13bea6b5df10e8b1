package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/examples/internal/shop"
	"github.com/ackfloor/ackfloor/worker"
)

// databaseLimit is for all that one order asks of the database. It is shorter than the handle timeout: a database that hangs is then a reason to
// pause, where the handle timeout would be charged to the order.
const databaseLimit = 10 * time.Second

// reserver handles orders.
type reserver struct {
	store  *store
	queued func() // called when an event waits in the outbox
}

// handle takes an order's articles off the shelf, once, and says so by an event: shelf, reservation, event and the record that the message is done are
// one transaction. An order that is rejected gets its event too, and is refused for good: no retry fills a shelf.
func (r *reserver) handle(ctx context.Context, o order, m *ackfloor.Message) error {
	o.ID, o.Quantity = cmp.Or(o.ID, m.ID()), cmp.Or(o.Quantity, 1)
	limited, cancel := context.WithTimeout(ctx, databaseLimit)
	defer cancel()
	left, done, err := r.reserve(limited, o, m)
	if rejection(err) {
		// The rejection's own transaction: that of the reservation is rolled back, as behind any error. If it fails, the order comes again,
		// rather than become a dead letter of which the shop was not told.
		if failed := r.store.reject(limited, o, err); failed != nil {
			return judge(ctx, fmt.Errorf("order %q: rejecting it (%s): %w", o.ID, err, failed))
		}
		r.queued()
	}
	switch {
	case rejection(err) || errors.Is(err, errName):
		worker.Slog(ctx).Info("rejected", "order", o.ID, "sku", o.SKU, "quantity", o.Quantity, "reason", err.Error())
		return ackfloor.Permanent(fmt.Errorf("order %q: %d x %q: %w", o.ID, o.Quantity, o.SKU, err))
	case err != nil:
		return judge(ctx, fmt.Errorf("order %q: %w", o.ID, err))
	case !done:
		shop.Show(m, "order %s: was reserved before", o.ID)
		return nil
	}
	r.queued()
	worker.Slog(ctx).Info("reserved", "order", o.ID, "sku", o.SKU, "quantity", o.Quantity, "left", left)
	shop.Show(m, "order %s: reserved %d x %s, %d left", o.ID, o.Quantity, o.SKU, left)
	return nil
}

// reserve returns done where this call has reserved the order; without done and error it was reserved before.
func (r *reserver) reserve(ctx context.Context, o order, m *ackfloor.Message) (left int64, done bool, err error) {
	if err := o.check(); err != nil {
		return 0, false, err
	}
	replayed := len(m.Header[deadletter.HeaderReplays]) > 0
	err = r.store.once.Handler(func(ctx context.Context, tx *sql.Tx, _ *ackfloor.Message) error {
		var err error
		left, done, err = reserve(ctx, tx, o, replayed)
		return err
	}).Handle(ctx, m)
	return left, done, err
}
