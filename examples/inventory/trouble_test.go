//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/jackc/pgx/v5/pgconn"
)

// A locked SQLite is a pause for all, behind its busy_timeout, and no attempt of any order; when the lock is gone, the order is reserved.
func TestALockedSQLiteIsAPause(t *testing.T) {
	t.Parallel()
	p := place{dir: t.TempDir()}
	s, other := p.open(t), p.open(t)
	_, err := s.db.ExecContext(t.Context(), "PRAGMA busy_timeout = 50") // of its one connection
	must(t, err)
	tx, err := other.db.BeginTx(t.Context(), nil)
	must(t, err)
	for _, o := range []order{{ID: "1", SKU: "mug"}, {ID: "2"}} { // one to reserve, and one to reject
		if err := handler(s).Handle(t.Context(), message(o)); !paused(err) || permanent(err) {
			t.Errorf("order %s: it returned %v, want a Pause", o.ID, err)
		}
	}
	must(t, tx.Rollback())
	must(t, handler(s).Handle(t.Context(), message(order{ID: "1", SKU: "mug"})))
}

// An article whose row somebody holds for longer than lock_timeout is trouble of that order: others go on.
func TestALockedRowIsTroubleOfOneOrder(t *testing.T) {
	t.Parallel()
	p := place{dir: t.TempDir(), url: newDatabase(t)}
	other := p.open(t)
	p.url += "&lock_timeout=100ms"
	s := p.open(t)
	tx, err := other.db.BeginTx(t.Context(), nil)
	must(t, err)
	_, err = tx.ExecContext(t.Context(), "UPDATE inventory_stock SET available = available WHERE sku = 'mug'")
	must(t, err)
	err = handler(s).Handle(t.Context(), message(order{ID: "1", SKU: "mug"}))
	if own, ok := errors.AsType[*pgconn.PgError](err); !ok || own.Code != "55P03" || paused(err) || permanent(err) {
		t.Errorf("it returned %v, want lock_not_available, to be tried again", err)
	}
	must(t, handler(s).Handle(t.Context(), message(order{ID: "2", SKU: "teapot"})))
	must(t, tx.Rollback())
	must(t, handler(s).Handle(t.Context(), message(order{ID: "1", SKU: "mug"})))
}

// A transaction that a deadlock ended is tried again.
func TestADeadlockIsTroubleOfOneOrder(t *testing.T) {
	t.Parallel()
	s := place{dir: t.TempDir(), url: newDatabase(t)}.open(t)
	hold := func(tx *sql.Tx, sku string) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE inventory_stock SET available = available WHERE sku = $1", sku)
		return err
	}
	a, err := s.db.BeginTx(t.Context(), nil)
	must(t, err)
	b, err := s.db.BeginTx(t.Context(), nil)
	must(t, err)
	must(t, hold(a, "mug"))
	must(t, hold(b, "teapot"))
	waits := make(chan error)
	go func() { waits <- hold(a, "teapot") }()
	errB := hold(b, "mug")
	_ = b.Rollback()
	errA := <-waits
	_ = a.Rollback()
	err = errors.Join(errA, errB)
	if own, ok := errors.AsType[*pgconn.PgError](err); !ok || own.Code != "40P01" {
		t.Fatalf("got %v, want a deadlock", err)
	}
	if judged := judge(t.Context(), err); paused(judged) || permanent(judged) {
		t.Errorf("it is judged %v", judged)
	}
}

// A PostgreSQL that is gone, or that says no, is a pause: nothing can be handled then.
func TestAPostgresThatIsGoneIsAPause(t *testing.T) {
	t.Parallel()
	p := place{dir: t.TempDir(), url: newDatabase(t)}
	s := p.open(t)
	must(t, s.once.Prepare(t.Context()))
	at, err := url.Parse(p.url)
	must(t, err)
	name := at.Path[1:]
	at.Path = "/postgres"
	other, err := sql.Open("pgx", at.String())
	must(t, err)
	defer func() { _ = other.Close() }()
	// The connections end with 57P01, as when the server is stopped; then there is no such database.
	_, err = other.ExecContext(t.Context(), "DROP DATABASE "+name+" WITH (FORCE)")
	must(t, err)
	for range 3 {
		if err := handler(s).Handle(t.Context(), message(order{ID: "1", SKU: "mug"})); !paused(err) {
			t.Errorf("it returned %v, want a Pause", err)
		}
	}
	for name, err := range map[string]error{
		"nobody listens": &pgconn.ConnectError{Config: &pgconn.Config{}}, "it starts": &pgconn.PgError{Code: "57P03"}, "its disk is full": &pgconn.PgError{Code: "53100"},
		"it is a standby": &pgconn.PgError{Code: "25006"}, "it hangs": context.DeadlineExceeded,
	} {
		if !paused(judge(t.Context(), err)) {
			t.Errorf("%s: it is no pause", name)
		}
	}
	for name, err := range map[string]error{"serialization": &pgconn.PgError{Code: "40001"}, "another": errors.New("x")} {
		if paused(judge(t.Context(), err)) {
			t.Errorf("%s: it is a pause", name)
		}
	}
}

// What the worker has ended is the worker's to judge.
func TestAnInterruptedCallIsNoPause(t *testing.T) {
	t.Parallel()
	s := place{dir: t.TempDir()}.open(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ackfloor.ErrStopping)
	if err := handler(s).Handle(ctx, message(order{ID: "1", SKU: "mug"})); err == nil || paused(err) || permanent(err) {
		t.Errorf("it returned %v", err)
	}
}

func TestAWrongDatabaseURLEndsTheServiceWithItsReason(t *testing.T) {
	for url, want := range map[string]int{
		"mysql://root:geheim@127.0.0.1/x":      shutdown.ExitConfig,
		"postgres://u:geheim@127.0.0.1:x/y":    shutdown.ExitConfig,
		"postgres://u:geheim@127.0.0.1:1/none": shutdown.ExitUnavailable, // nobody listens there
	} {
		t.Setenv("DATABASE_URL", url)
		_, err := openStore(t.Context(), t.TempDir(), 300*time.Millisecond, 1, t.Logf)
		if err == nil || shutdown.ExitCode(err) != want {
			t.Errorf("%s: got %v, want exit code %d", url, err, want)
		}
	}
	t.Setenv("DATABASE_URL", "")
	t.Setenv("DATABASE_URL_FILE", filepath.Join(t.TempDir(), "none"))
	if _, err := openStore(t.Context(), t.TempDir(), time.Second, 1, t.Logf); shutdown.ExitCode(err) != shutdown.ExitConfig {
		t.Errorf("a file that is not there: %v", err)
	}
}
