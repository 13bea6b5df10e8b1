package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/ackfloor/ackfloor/once"
	"github.com/ackfloor/ackfloor/shutdown"
)

const (
	askAgain   = 250 * time.Millisecond // at the start, between two tries
	tryLimit   = 6 * time.Second        // of one try; above SQLite's busy_timeout
	schemaLock = 7_301_774_231          // PostgreSQL's advisory lock for making the tables: any number that nobody else takes
)

// store is the database: the stock, the orders that were decided, the events that wait to be published, and package once's record of the
// messages that are done.
type store struct {
	db   *sql.DB
	kind database
	once *once.SQL
}

// openStore opens the database that DATABASE_URL names, or else a file in dir. It makes what is missing, and waits up to limit for a database that is
// down. Handlers is how many transactions are under way at once, at the most.
func openStore(ctx context.Context, dir string, limit time.Duration, handlers int, say func(string, ...any)) (*store, error) {
	kind, err := databaseFromEnv(dir)
	if err != nil {
		return nil, err
	}
	s := &store{db: kind.open(handlers), kind: kind}
	if s.once, err = once.NewSQL(s.db, once.SQLConfig{Dialect: kind.dialect}); err != nil {
		return nil, err
	}
	said := false
	for end := time.Now().Add(limit); ; {
		err := s.prepare(ctx)
		switch {
		case err == nil:
			say("the stock is in %s: %s", kind.name, s.shelves(ctx))
			return s, nil
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case refused(err), !down(err):
			err = &exitError{shutdown.ExitConfig, fmt.Errorf("the database %s: %w", kind.name, err)}
		case time.Now().After(end):
			err = &exitError{shutdown.ExitUnavailable, fmt.Errorf("the database %s was not available within %v: %w", kind.name, limit, err)}
		default:
			if !said {
				said = true
				say("waiting for the database %s: %v", kind.name, err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(askAgain):
			}
			continue
		}
		_ = s.db.Close()
		return nil, err
	}
}

func (s *store) close() error { return s.db.Close() }

// The tables. Available is checked by the database too: whatever a statement gets wrong, nothing is sold twice.
var tables = []string{
	`CREATE TABLE IF NOT EXISTS inventory_stock (sku TEXT PRIMARY KEY, supplied BIGINT NOT NULL, available BIGINT NOT NULL CHECK (available >= 0))`,
	`CREATE TABLE IF NOT EXISTS inventory_orders (order_id TEXT PRIMARY KEY, sku TEXT NOT NULL, quantity BIGINT NOT NULL, state TEXT NOT NULL,
 reason TEXT NOT NULL, decided BIGINT NOT NULL)`, // decided: milliseconds since 1970
}

var outboxTable = map[once.Dialect]string{
	once.SQLite:     `CREATE TABLE IF NOT EXISTS inventory_outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, subject TEXT NOT NULL, payload TEXT NOT NULL)`,
	once.PostgreSQL: `CREATE TABLE IF NOT EXISTS inventory_outbox (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, subject TEXT NOT NULL, payload TEXT NOT NULL)`,
}

// initial is what a new shop has. It is put in with the tables, once.
const initial = "INSERT INTO inventory_stock (sku, supplied, available) VALUES ('mug', 40, 40), ('teapot', 12, 12), ('kettle', 5, 5) ON CONFLICT DO NOTHING"

// prepare makes the tables that are missing. A user who may not make any finds them made by one who may.
func (s *store) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	if err := s.db.PingContext(ctx); err != nil {
		return err
	}
	if !s.made(ctx) {
		if err := s.make(ctx); err != nil {
			return err
		}
	}
	return s.once.Prepare(ctx)
}

func (s *store) made(ctx context.Context) bool {
	var n int
	err := s.db.QueryRowContext(ctx, `SELECT (SELECT COUNT(sku) FROM inventory_stock WHERE 1 = 0) + (SELECT COUNT(order_id) FROM inventory_orders WHERE 1 = 0) +
 (SELECT COUNT(id) FROM inventory_outbox WHERE 1 = 0)`).Scan(&n)
	return err == nil
}

// make makes the tables and puts the initial stock in, in one transaction. Of several processes one does it, and the others wait for it.
func (s *store) make(ctx context.Context) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	statements := append([]string{}, tables...)
	statements = append(statements, outboxTable[s.kind.dialect], initial)
	if s.kind.dialect == once.PostgreSQL { // SQLite's transaction has its lock from the beginning
		statements = append([]string{fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", schemaLock)}, statements...)
	}
	for _, q := range statements {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("making the tables: %w", err)
		}
	}
	return tx.Commit()
}

// exitError is an error with an exit code of package shutdown.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }
func (e *exitError) ExitCode() int { return e.code }
