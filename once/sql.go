package once

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor"
)

// SQLConfig is what a SQL can be told. Only Dialect is required.
type SQLConfig struct {
	Dialect   Dialect            // SQLite, PostgreSQL or MySQL
	Table     string             // letters, digits and _, with or without a schema before a dot; default ackfloor_once; made when it is missing
	Keep      time.Duration      // how long a record is kept at the least, from a minute; default 7 days
	Isolation sql.IsolationLevel // of the transaction; default the database's own

	// OnError is told of what fails no message: old records that can't be removed. It is called from several goroutines at once; nil counts only.
	OnError func(error)
}

const (
	defaultTable = "ackfloor_once"
	defaultKeep  = 7 * 24 * time.Hour
)

// SQL makes handlers whose effects are in one database happen once. Use one for all handlers and Runners on a database, also for several consumers: each has records
// of its own. Make one with NewSQL.
//
// The record is inserted before the handler is called, and its primary key is the message. So where two processes have one message at the same time, the second
// waits for the first's transaction, or fails, and then skips.
//
// Records below the ack floor are removed when they are older than Keep, a thousand at a time, now and then behind a commit. A floor may go back, by a
// server that lost its last acks or by a consumer that is made anew: until Keep is over, nothing is done twice then either.
type SQL struct {
	db    *sql.DB
	cfg   SQLConfig
	query statements

	ready    atomic.Bool
	creating chan struct{} // taken by who makes the table
	removals removals

	done, skipped, uncommitted, removed, removalErrors atomic.Uint64
}

// SQLStats are the counters of a SQL since it was made. They only grow.
type SQLStats struct {
	Done          uint64 // transactions committed
	Skipped       uint64 // messages that had been done before: acknowledged, and no handler called
	CommitErrors  uint64 // commits that failed, or whose answer was lost: each a failed attempt
	Removed       uint64 // old records removed
	RemovalErrors uint64 // removals that failed; the next one catches up
}

// NewSQL makes a SQL on db. A wrong configuration is reported as a *ConfigError, with all its faults. The database is not asked until the first message, or Prepare.
func NewSQL(db *sql.DB, cfg SQLConfig) (*SQL, error) {
	if cfg.Table == "" {
		cfg.Table = defaultTable
	}
	if cfg.Keep == 0 {
		cfg.Keep = defaultKeep
	}
	if problems := cfg.problems(db); len(problems) > 0 {
		return nil, &ConfigError{Problems: problems}
	}
	return &SQL{db: db, cfg: cfg, query: statementsFor(cfg.Dialect, cfg.Table), creating: make(chan struct{}, 1)}, nil
}

func (c SQLConfig) problems(db *sql.DB) (out []string) {
	if db == nil {
		out = append(out, "the database is nil")
	}
	if dialects[c.Dialect] == "" {
		out = append(out, fmt.Sprintf("Dialect is %v: it takes SQLite, PostgreSQL or MySQL", c.Dialect))
	}
	if !tableName.MatchString(c.Table) {
		out = append(out, fmt.Sprintf("Table is %q: it takes letters, digits and _, 63 at the most, with or without a schema before a dot", c.Table))
	}
	if c.Keep < time.Minute {
		out = append(out, fmt.Sprintf("Keep is %v: it takes a minute or more", c.Keep))
	}
	if c.Isolation < sql.LevelDefault || c.Isolation > sql.LevelLinearizable {
		out = append(out, fmt.Sprintf("Isolation is %v: it takes a level of database/sql", c.Isolation))
	}
	return out
}

// Handler makes a Handler that calls fn in a transaction, unless the message has been done before: then it returns nil without calling fn.
//
// fn does its work with tx, returns every error of a statement, and neither commits nor rolls back. When it returns nil the transaction is committed, and the
// message acknowledged; when it returns an error, panics or ends its goroutine, or when ctx has ended, it is rolled back, and then what fn returned decides as
// always. A database that is locked, a serialization failure, a deadlock are plain errors: the message comes back.
func (s *SQL) Handler(fn func(ctx context.Context, tx *sql.Tx, m *ackfloor.Message) error) ackfloor.Handler {
	return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error { return s.handle(ctx, m, fn) })
}

// JSON is SQL.Handler with the payload decoded as JSON, as ackfloor.JSON does it. What can't be decoded is Permanent and touches no database.
func JSON[T any](s *SQL, fn func(ctx context.Context, tx *sql.Tx, v T, m *ackfloor.Message) error) ackfloor.Handler {
	return ackfloor.JSON(func(ctx context.Context, v T, m *ackfloor.Message) error {
		return s.handle(ctx, m, func(ctx context.Context, tx *sql.Tx, m *ackfloor.Message) error { return fn(ctx, tx, v, m) })
	})
}

// Stats are the counters at this moment.
func (s *SQL) Stats() SQLStats {
	return SQLStats{Done: s.done.Load(), Skipped: s.skipped.Load(), CommitErrors: s.uncommitted.Load(), Removed: s.removed.Load(),
		RemovalErrors: s.removalErrors.Load()}
}

func (s *SQL) handle(ctx context.Context, m *ackfloor.Message, fn func(context.Context, *sql.Tx, *ackfloor.Message) error) error {
	if err := s.Prepare(ctx); err != nil {
		return err
	}
	first, err := s.attempt(ctx, m, fn)
	switch {
	case err != nil:
		return err
	case !first:
		s.skipped.Add(1)
		return nil
	}
	s.done.Add(1)
	s.tidy(ctx, m)
	return nil
}

// attempt is one transaction. It returns false where the message has been done before.
func (s *SQL) attempt(ctx context.Context, m *ackfloor.Message, fn func(context.Context, *sql.Tx, *ackfloor.Message) error) (first bool, err error) {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: s.cfg.Isolation})
	if err != nil {
		return false, fmt.Errorf("once: begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // also behind a panic and runtime.Goexit; behind a commit it does nothing
	if first, err = s.record(ctx, tx, m); !first {
		return false, err
	}
	if err := fn(ctx, tx, m); err != nil {
		return false, err
	}
	err = context.Cause(ctx) // database/sql looks as well, but hears of it a moment later than the handler may
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		s.uncommitted.Add(1)
		return false, fmt.Errorf("once: commit: %w", err)
	}
	return true, nil
}

// record inserts that the message is done. It returns false where another transaction has done that.
func (s *SQL) record(ctx context.Context, tx *sql.Tx, m *ackfloor.Message) (first bool, err error) {
	if len(m.Stream) > longestName || len(m.Consumer) > longestName {
		return false, fmt.Errorf("once: the names of stream and consumer have %d and %d bytes, more than a server takes", len(m.Stream), len(m.Consumer))
	}
	res, err := tx.ExecContext(ctx, s.query.insert, m.Stream, m.Consumer, int64(m.Sequence), m.Published.UnixNano(), time.Now().UnixNano())
	var n int64
	if err == nil {
		n, err = res.RowsAffected()
	}
	if err != nil {
		s.ready.Store(false) // the table may be gone; the next attempt looks
		return false, fmt.Errorf("once: recording it in %s: %w", s.cfg.Table, err)
	}
	return n > 0, nil
}

// Prepare makes the table if it is not there. Each message does so itself as long as none has; a service that calls it at its start fails there rather than at its
// first message. Several processes may do it at the same time.
func (s *SQL) Prepare(ctx context.Context) error {
	if s.ready.Load() {
		return nil
	}
	select {
	case s.creating <- struct{}{}:
		defer func() { <-s.creating }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.ready.Load() {
		return nil
	}
	missing := s.probe(ctx)
	if missing != nil { // perhaps; a user who may only write must not be asked to create what is there
		if _, err := s.db.ExecContext(ctx, s.query.create); err != nil {
			if s.probe(ctx) != nil { // else another process has made it in between
				return fmt.Errorf("once: making table %s: %w (looking for it: %s)", s.cfg.Table, err, oneLine(missing))
			}
		} else if err := s.probe(ctx); err != nil {
			return fmt.Errorf("once: table %s is not one of this package: %w", s.cfg.Table, err)
		}
	}
	s.ready.Store(true)
	return nil
}

// probe asks for every column that is needed.
func (s *SQL) probe(ctx context.Context) error {
	rows, err := s.db.QueryContext(ctx, s.query.probe)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
