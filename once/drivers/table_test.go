//go:build unix

package drivers

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/once"
	"github.com/ackfloor/ackfloor/testutil"
)

// Many processes that start at the same time on an empty database all find the table made.
func TestTableIsMadeByMany(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		for round := range 5 {
			var all sync.WaitGroup
			table := func(c *once.SQLConfig) { c.Table = "once_" + string(rune('a'+round)) }
			for range 8 {
				s := d.once(t, table)
				all.Go(func() {
					if err := s.Prepare(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
	})
}

// A table of the name that is something else is told, and left alone. A name that is a keyword is a name.
func TestForeignTable(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		db := d.open(t)
		_, err := db.ExecContext(t.Context(), "CREATE TABLE ackfloor_once (id INTEGER)")
		must(t, err)
		if err := d.once(t).Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "not one of this package") {
			t.Errorf("it returned %v", err)
		}
		s := d.once(t, func(c *once.SQLConfig) { c.Table = "select" })
		must(t, s.Prepare(t.Context()))
	})
}

// A user who may write but not create works with a table that is there, and without it is told what is missing.
func TestUserWhoMayNotCreate(t *testing.T) {
	d := newPostgres(t)
	db := d.open(t)
	_, err := db.ExecContext(t.Context(), "CREATE ROLE app LOGIN")
	must(t, err)
	t.Cleanup(func() { postgresServer(t).exec(t, "DROP OWNED BY app; DROP ROLE app") })
	app := *d
	app.dsn = strings.Replace(d.dsn, "test@", "app@", 1)
	if err := app.once(t).Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("it returned %v", err)
	}
	must(t, d.once(t).Prepare(t.Context()))
	d.effects(t, db)
	_, err = db.ExecContext(t.Context(), "GRANT SELECT, INSERT, DELETE ON ackfloor_once, effects TO app")
	must(t, err)
	must(t, attempt(t, app.once(t).Handler(d.effect(nil)), testutil.Message("events.x", "x"), time.Second))
	wantCounts(t, db, "by the user", 1, 1)
	_, err = db.ExecContext(t.Context(), "DROP TABLE effects; REVOKE ALL ON ackfloor_once FROM app")
	must(t, err)
}

// Of 5,000 records, those that are old and below the floor are removed, a few thousand at a time; young ones, those above the floor and those of others stay.
func TestOldRecordsAreRemoved(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		db := d.open(t)
		s := d.once(t)
		floor := uint64(0)
		one := func(s *once.SQL, seq int, o ...testutil.MessageOption) {
			t.Helper()
			ctx := ackfloor.WithAckFloor(t.Context(), func() uint64 { return floor })
			h := s.Handler(nothing)
			must(t, h.Handle(ctx, testutil.Message("events.x", "x", append(o, testutil.Sequence(uint64(seq)), testutil.Published(time.Unix(1, 0)))...)))
		}
		for seq := range 3000 {
			one(s, seq+1)
		}
		one(s, 7, testutil.Consumer("other"))
		left := func() int { return count(t, db, "ackfloor_once WHERE consumer = 'test'") }
		age(t, db, 1, 3000, 8*24*time.Hour)
		age(t, db, 401, 500, -8*24*time.Hour) // young again

		one(d.once(t), 3001)
		if n := left(); n != 3001 {
			t.Fatalf("without a floor: %d records", n)
		}
		floor = 2800
		starts := d.once(t) // removes with its first message, and then with each thousandth
		one(starts, 3002)
		if n := left(); n != 3002-1800 || starts.Stats().Removed != 1800 {
			t.Errorf("behind the first: %d records, %+v", n, starts.Stats())
		}
		for seq := range 999 {
			one(starts, 3003+seq)
		}
		if n := left(); n != 3002-1800+999 {
			t.Errorf("behind 999 more: %d records", n)
		}
		one(starts, 4002)
		if n := count(t, db, "ackfloor_once WHERE consumer = 'test' AND sequence <= 2800"); n != 100 {
			t.Errorf("%d records below the floor", n)
		}
		if n := count(t, db, "ackfloor_once WHERE consumer = 'test' AND sequence > 2800"); n != 4002-2800 {
			t.Errorf("%d records above the floor", n)
		}
		if n := count(t, db, "ackfloor_once WHERE consumer = 'other'"); n != 1 || starts.Stats().RemovalErrors != 0 {
			t.Errorf("%d records of another consumer, %+v", n, starts.Stats())
		}
	})
}

// A removal that fails fails no message, and is told.
func TestRemovalFailsNoMessage(t *testing.T) {
	d := newSQLite(t)
	db := d.open(t)
	d.effects(t, db)
	must(t, attempt(t, d.once(t).Handler(d.effect(nil)), testutil.Message("events.x", "x"), time.Second))
	age(t, db, 1, 1, 8*24*time.Hour)
	_, err := db.ExecContext(t.Context(), "CREATE TRIGGER keep BEFORE DELETE ON ackfloor_once BEGIN SELECT RAISE(ABORT, 'may not be deleted'); END")
	must(t, err)
	var told []error
	s := d.once(t, func(c *once.SQLConfig) { c.OnError = func(err error) { told = append(told, err) } })
	ctx := ackfloor.WithAckFloor(t.Context(), func() uint64 { return 1 })
	for seq := range 5 {
		must(t, s.Handler(d.effect(nil)).Handle(ctx, testutil.Message("events.x", "x", testutil.Sequence(uint64(seq+2)))))
	}
	if st := s.Stats(); st != (once.SQLStats{Done: 5, RemovalErrors: 1}) || len(told) != 1 || !strings.Contains(told[0].Error(), "may not be deleted") {
		t.Errorf("%+v, told %v", st, told)
	}
}

// A database that is locked for longer than it waits is a plain error, and the next attempt succeeds.
func TestLockedDatabaseIsAnError(t *testing.T) {
	d := newSQLite(t)
	db := d.open(t)
	d.effects(t, db)
	d.dsn = strings.Replace(d.dsn, "busy_timeout(10000)", "busy_timeout(50)", 1)
	s := d.once(t)
	must(t, s.Prepare(t.Context()))
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	_, err = tx.ExecContext(t.Context(), d.insertEffect(), 99, "locks")
	must(t, err)
	m := testutil.Message("events.x", "x")
	err = attempt(t, s.Handler(d.effect(nil)), m, 5*time.Second)
	if err == nil || !strings.Contains(err.Error(), "locked") || is[*ackfloor.PermanentError](err) {
		t.Errorf("it returned %v", err)
	}
	must(t, tx.Rollback())
	must(t, attempt(t, s.Handler(d.effect(nil)), m, 5*time.Second))
	wantCounts(t, db, "behind it", 1, 1)
}

// A table that is dropped while a process works is made anew by the attempt behind the one that found it missing.
func TestDroppedTableIsMadeAnew(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		db := d.open(t)
		d.effects(t, db)
		s := d.once(t)
		must(t, s.Prepare(context.Background()))
		_, err := db.ExecContext(t.Context(), "DROP TABLE ackfloor_once")
		must(t, err)
		m := testutil.Message("events.x", "x")
		if err := attempt(t, s.Handler(d.effect(nil)), m, 5*time.Second); err == nil {
			t.Error("without its table it returned nil")
		}
		must(t, attempt(t, s.Handler(d.effect(nil)), m, 5*time.Second))
		wantCounts(t, db, "behind both", 1, 1)
	})
}
