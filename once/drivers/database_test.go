//go:build unix

package drivers

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/once"
	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)

// database is one database of its own, which several processes may open.
type database struct {
	dialect once.Dialect
	driver  string
	dsn     string
}

// each runs a test with a database of each kind that there is here.
func each(t *testing.T, test func(t *testing.T, d *database)) {
	t.Helper()
	for name, open := range map[string]func(*testing.T) *database{"sqlite": newSQLite, "postgres": newPostgres, "mariadb": newMariaDB} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func newSQLite(t *testing.T) *database {
	return &database{once.SQLite, "sqlite", sqliteDSN(filepath.Join(t.TempDir(), "data.db"))}
}

func sqliteDSN(path string) string {
	return "file:" + path + "?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=busy_timeout(10000)"
}

var databases atomic.Int32

func newPostgres(t *testing.T) *database {
	s := postgresServer(t)
	name := "t" + strconv.Itoa(int(databases.Add(1)))
	s.exec(t, "CREATE DATABASE "+name)
	return &database{once.PostgreSQL, "pgx", s.dsn(name)}
}

func newMariaDB(t *testing.T) *database {
	s := mariaServer(t)
	name := "t" + strconv.Itoa(int(databases.Add(1)))
	s.exec(t, "CREATE DATABASE "+name)
	return &database{once.MySQL, "mysql", s.dsn(name)}
}

// open is what a process does at its start.
func (d *database) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.driver, d.dsn)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	if d.dialect == once.SQLite {
		db.SetMaxOpenConns(1)
	}
	return db
}

// once makes a SQL on a connection of its own.
func (d *database) once(t testing.TB, change ...func(*once.SQLConfig)) *once.SQL {
	t.Helper()
	return d.onceOn(t, d.open(t), change...)
}

func (d *database) onceOn(t testing.TB, db *sql.DB, change ...func(*once.SQLConfig)) *once.SQL {
	t.Helper()
	cfg := once.SQLConfig{Dialect: d.dialect}
	for _, c := range change {
		c(&cfg)
	}
	s, err := once.NewSQL(db, cfg)
	must(t, err)
	return s
}

// effects makes the table of the effects: one row each, and nothing that would keep two of one message apart.
func (d *database) effects(t testing.TB, db *sql.DB) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), "CREATE TABLE effects (sequence BIGINT NOT NULL, consumer VARCHAR(255) NOT NULL)")
	must(t, err)
}

func (d *database) insertEffect() string {
	if d.dialect == once.PostgreSQL {
		return "INSERT INTO effects (sequence, consumer) VALUES ($1, $2)"
	}
	return "INSERT INTO effects (sequence, consumer) VALUES (?, ?)"
}

func count(t testing.TB, db *sql.DB, of string, args ...any) (n int) {
	t.Helper()
	must(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+of, args...).Scan(&n))
	return n
}

// wantCounts compares the rows of effects and of ackfloor_once.
func wantCounts(t testing.TB, db *sql.DB, what string, effects, records int) {
	t.Helper()
	if e, r := count(t, db, "effects"), count(t, db, "ackfloor_once"); e != effects || r != records {
		t.Errorf("%s: %d effects and %d records, not %d and %d", what, e, r, effects, records)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v still waiting for %s", limit, what)
		}
	}
}

// age makes the records of a sequence range as old as d.
func age(t testing.TB, db *sql.DB, from, to int, d time.Duration) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), fmt.Sprintf("UPDATE ackfloor_once SET done = done - %d WHERE sequence BETWEEN %d AND %d", d.Nanoseconds(), from, to))
	must(t, err)
}
