package main

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/once"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver
)

// database is where the stock is kept.
type database struct {
	dialect  once.Dialect
	name     string // to show: without a password
	path     string // of SQLite's file
	postgres *pgx.ConnConfig
}

// sqliteOptions: WAL lets others read, and back up, while an order is written. synchronous=FULL makes each commit wait for the disk, so that an order that was
// acknowledged is still reserved behind a power loss; with NORMAL its last commits may be gone, and the orders don't come again. A
// transaction takes the write lock as it begins: one that took it later would fail, without waiting, if another had written in between.
const sqliteOptions = "?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=temp_store(MEMORY)"

// databaseFromEnv reads DATABASE_URL, or the file that DATABASE_URL_FILE names, which suits a secret.
func databaseFromEnv(dir string) (database, error) {
	from, text := "DATABASE_URL", os.Getenv("DATABASE_URL")
	if file := os.Getenv("DATABASE_URL_FILE"); file != "" && text == "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return database{}, &exitError{shutdown.ExitConfig, fmt.Errorf("DATABASE_URL_FILE: %w", err)}
		}
		from, text = "the content of DATABASE_URL_FILE", strings.TrimSpace(string(b))
	}
	if text == "" {
		path := filepath.Join(dir, "inventory.db")
		return database{dialect: once.SQLite, name: path, path: path}, nil
	}
	var cfg *pgx.ConnConfig
	err := errors.New("another scheme")
	if strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://") {
		cfg, err = pgx.ParseConfig(text)
	}
	if err != nil { // which may tell the password
		return database{}, &exitError{shutdown.ExitConfig, fmt.Errorf("%s takes postgres://user:password@host:port/database, or nothing for SQLite", from)}
	}
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, 5*time.Second)
	for name, value := range map[string]string{
		"application_name": "inventory",
		"lock_timeout":     "5s", // on an article that somebody else holds: the order comes again
		// A process that is cut off in a transaction must not hold its articles for ever.
		"idle_in_transaction_session_timeout": "15s",
	} {
		if cfg.RuntimeParams[name] == "" {
			cfg.RuntimeParams[name] = value
		}
	}
	return database{dialect: once.PostgreSQL, name: fmt.Sprintf("PostgreSQL at %s:%d, database %s", cfg.Host, cfg.Port, cfg.Database), postgres: cfg}, nil
}

// open returns the pool of connections; none is made yet.
func (d database) open(handlers int) *sql.DB {
	if d.dialect == once.SQLite {
		// Only a driver that is not there is an error.
		db, _ := sql.Open("sqlite", "file:"+(&url.URL{Path: d.path}).EscapedPath()+sqliteOptions)
		db.SetMaxOpenConns(1) // SQLite has one writer: others would wait for its lock, where here they queue
		return db
	}
	db := stdlib.OpenDB(*d.postgres)
	db.SetMaxOpenConns(handlers + 2) // the outbox, and one to spare
	db.SetMaxIdleConns(handlers + 2)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db
}
