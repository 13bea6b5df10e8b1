package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
)

const (
	restockUsage = "usage: inventory -restock ARTICLE=NUMBER [ARTICLE=NUMBER …], such as inventory -restock teapot=20"
	restockWait  = 10 * time.Second // for a database that is down
	mostSupplied = 1_000_000_000    // of one delivery
)

// delivery is what a restock brings.
type delivery struct {
	sku    string
	number int64
}

// restock fills the shelves of the database that a service of the same environment and folder works with, which goes on meanwhile. It returns the exit code.
func restock(args []string) int {
	deliveries, err := parseDeliveries(args)
	if err == nil {
		// The background context belongs here: this is where the process begins.
		err = deliver(context.Background(), deliveries)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "inventory: %v\n", err)
	}
	return shutdown.ExitCode(err)
}

func parseDeliveries(args []string) (all []delivery, err error) {
	for _, arg := range args {
		sku, text, _ := strings.Cut(arg, "=")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 || n > mostSupplied || sku == "" || len(sku) > longestName {
			return nil, &exitError{shutdown.ExitConfig, fmt.Errorf("%q: an article, = and a number from 1 to %d are needed\n%s", arg, mostSupplied, restockUsage)}
		}
		all = append(all, delivery{sku, n})
	}
	// In one order, so that two who restock at once don't wait for each other.
	slices.SortFunc(all, func(a, b delivery) int { return strings.Compare(a.sku, b.sku) })
	if len(all) == 0 {
		return nil, &exitError{shutdown.ExitConfig, errors.New(restockUsage)}
	}
	return all, nil
}

func deliver(ctx context.Context, deliveries []delivery) error {
	const dir = ".ackfloor" // as the service's own
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	s, err := openStore(ctx, dir, restockWait, 1, func(string, ...any) {})
	if err != nil {
		return err
	}
	err = s.restock(ctx, deliveries)
	if err == nil {
		fmt.Printf("inventory: the stock in %s: %s\n", s.kind.name, s.shelves(ctx))
	}
	return errors.Join(err, s.close())
}

// restock puts articles on the shelf, all or none. One that the shop did not have is new.
func (s *store) restock(ctx context.Context, deliveries []delivery) error {
	ctx, cancel := context.WithTimeout(ctx, databaseLimit)
	defer cancel()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("restocking: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	for _, d := range deliveries {
		_, err := tx.ExecContext(ctx, `INSERT INTO inventory_stock (sku, supplied, available) VALUES ($1, $2, $2) ON CONFLICT (sku) DO UPDATE
 SET supplied = inventory_stock.supplied + excluded.supplied, available = inventory_stock.available + excluded.available`, d.sku, d.number)
		if err != nil {
			return fmt.Errorf("restocking %s: %w", d.sku, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("restocking: %w", err)
	}
	return nil
}

const mostShelves = 10 // that are shown

// shelves tells what there is, in a few words.
func (s *store) shelves(ctx context.Context) string {
	rows, err := s.db.QueryContext(ctx, "SELECT sku, available FROM inventory_stock ORDER BY sku LIMIT $1", mostShelves+1)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = rows.Close() }()
	var parts []string
	for rows.Next() {
		var sku string
		var n int64
		if err := rows.Scan(&sku, &n); err != nil {
			return err.Error()
		}
		parts = append(parts, fmt.Sprintf("%s %d", sku, n))
	}
	if err := rows.Err(); err != nil {
		return err.Error()
	}
	if len(parts) > mostShelves {
		parts[mostShelves] = "…"
	}
	return strings.Join(parts, ", ")
}
