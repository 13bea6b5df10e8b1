package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// pause is how long the worker waits until it tries a database that is down with one order.
const pause = time.Second

// judge tells a database that is down from trouble of one order. The worker pauses for the first: no order can be handled then, so none is charged with
// an attempt. A deadlock, a serialization failure, an article whose row somebody holds are plain errors, and the order comes again.
//
// A circuit breaker would need some orders to fail first, since it can't read an error. Here the errors say which is which.
func judge(ctx context.Context, err error) error {
	if ctx.Err() == nil && (down(err) || refused(err)) { // else the worker has ended the call, and knows why
		return ackfloor.Pause(pause, err)
	}
	return err
}

// down tells an error of a database that serves nobody at the moment.
func down(err error) bool {
	if own, ok := errors.AsType[*sqlite.Error](err); ok {
		switch own.Code() & 0xff { // the rest of the code says more, which does not matter here
		// A lock of SQLite's is on all of the database. It has been waited for already, for as long as busy_timeout says.
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
			return true
		}
		return false
	}
	if own, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case strings.HasPrefix(own.Code, "08"), // connection trouble
			strings.HasPrefix(own.Code, "53"),  // out of connections, disk or memory
			strings.HasPrefix(own.Code, "57P"), // it is stopped, has crashed, or starts
			own.Code == "25006":                // read only: a standby, as in a failover
			return true
		}
		return false
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) // it hangs
}

// refused tells a PostgreSQL that answers, and says no to whoever asks, or to what is asked for. At the start that is a matter of configuration; later on,
// as when somebody changes a password or drops a table, it concerns every order, as an outage does.
func refused(err error) bool {
	own, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	switch own.Code {
	case "3D000", "42501", "42P01": // no such database, no right, no such table
		return true
	}
	return strings.HasPrefix(own.Code, "28") // not this user, or not this password
}
