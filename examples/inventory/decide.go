package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// What inventory_orders says of an order.
const (
	reserved = "reserved"
	rejected = "rejected"
)

// reserve takes the order's articles off the shelf, unless the order is reserved already: it may have been published twice, as two messages. An order
// that was rejected stays so, though the shelf may be full again by the time that its message comes again; with again it is decided anew, which is
// what a replay from the dead letters asks for.
//
// The row of the order comes first, then that of the article: whoever works on the same rows waits for the same one first, so nobody deadlocks.
func reserve(ctx context.Context, tx *sql.Tx, o order, again bool) (left int64, done bool, err error) {
	mine, err := claim(ctx, tx, o, again)
	if !mine {
		return 0, false, err
	}
	err = tx.QueryRowContext(ctx, "UPDATE inventory_stock SET available = available - $1 WHERE sku = $2 AND available >= $1 RETURNING available",
		o.Quantity, o.SKU).Scan(&left)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, errOutOfStock
	}
	if err != nil {
		return 0, false, fmt.Errorf("taking it off the shelf: %w", err)
	}
	err = enqueue(ctx, tx, "events.stock_reserved", outcome{OrderID: o.ID, SKU: o.SKU, Quantity: o.Quantity, Left: &left})
	return left, err == nil, err
}

// claim writes the order down as reserved. It returns false where it was so before, and the rejection where it was rejected.
func claim(ctx context.Context, tx *sql.Tx, o order, again bool) (mine bool, err error) {
	if mine, err = write(ctx, tx, o, reserved, ""); mine || err != nil {
		return mine, err
	}
	if again {
		return changed(tx.ExecContext(ctx, `UPDATE inventory_orders SET state = $1, sku = $2, quantity = $3, reason = '', decided = $4
 WHERE order_id = $5 AND state = $6`, reserved, o.SKU, o.Quantity, time.Now().UnixMilli(), o.ID, rejected))
	}
	var state, reason string
	if err := tx.QueryRowContext(ctx, "SELECT state, reason FROM inventory_orders WHERE order_id = $1", o.ID).Scan(&state, &reason); err != nil {
		return false, fmt.Errorf("reading it: %w", err)
	}
	if state == rejected {
		return false, known(reason)
	}
	return false, nil
}

// known is the rejection that was written down.
func known(reason string) error {
	for _, err := range []error{errNoArticle, errQuantity} {
		if err.Error() == reason {
			return err
		}
	}
	return errOutOfStock
}

// reject writes the order down as rejected and says so by an event, in one transaction, unless it was decided before: then there is nothing to say.
func (s *store) reject(ctx context.Context, o order, reason error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // behind a commit it does nothing
	mine, err := write(ctx, tx, o, rejected, reason.Error())
	if !mine {
		return err
	}
	if err := enqueue(ctx, tx, "events.stock_rejected", outcome{OrderID: o.ID, SKU: o.SKU, Quantity: o.Quantity, Reason: reason.Error()}); err != nil {
		return err
	}
	return tx.Commit()
}

// write inserts the order's row. It returns false where there is one.
func write(ctx context.Context, tx *sql.Tx, o order, state, reason string) (first bool, err error) {
	return changed(tx.ExecContext(ctx, `INSERT INTO inventory_orders (order_id, sku, quantity, state, reason, decided) VALUES ($1, $2, $3, $4, $5, $6)
 ON CONFLICT DO NOTHING`, o.ID, o.SKU, o.Quantity, state, reason, time.Now().UnixMilli()))
}

func changed(res sql.Result, err error) (bool, error) {
	var n int64
	if err == nil {
		n, err = res.RowsAffected()
	}
	if err != nil {
		return false, fmt.Errorf("writing it down: %w", err)
	}
	return n > 0, nil
}

// outcome is the payload of events.stock_reserved and events.stock_rejected.
type outcome struct {
	OrderID  string `json:"order_id"`
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
	Left     *int64 `json:"left,omitempty"`   // on the shelf, of a reservation
	Reason   string `json:"reason,omitempty"` // of a rejection
}

// enqueue puts an event in the outbox.
func enqueue(ctx context.Context, tx *sql.Tx, subject string, e outcome) error {
	payload, err := json.Marshal(e)
	if err == nil {
		_, err = tx.ExecContext(ctx, "INSERT INTO inventory_outbox (subject, payload) VALUES ($1, $2)", subject+"."+token(e.OrderID), string(payload))
	}
	if err != nil {
		return fmt.Errorf("queueing its event: %w", err)
	}
	return nil
}
