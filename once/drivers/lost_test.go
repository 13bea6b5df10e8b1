//go:build unix

package drivers

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

var errLost = errors.New("the connection is lost")

// unsure is a connector whose next commits fail: before they are done, or behind that, when only the answer is lost.
type unsure struct {
	driver.Connector
	before, behind atomic.Int32
}

// conn is what both drivers have.
type conn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
}

type unsureConn struct {
	conn
	of *unsure
}

type unsureTx struct {
	driver.Tx
	of *unsure
}

func (u *unsure) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := u.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &unsureConn{c.(conn), u}, nil
}

func (c *unsureConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.conn.BeginTx(ctx, opts)
	return &unsureTx{tx, c.of}, err
}

func (t *unsureTx) Commit() error {
	if t.of.before.Add(-1) >= 0 {
		_ = t.Tx.Rollback()
		return errLost
	}
	err := t.Tx.Commit()
	if err == nil && t.of.behind.Add(-1) >= 0 {
		return errLost
	}
	return err
}

// A commit whose answer is lost is a failed attempt. The next one finds out whether it was done: the handler is called again if it was not, and skipped if it was.
func TestCommitWhoseOutcomeIsUnknown(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		db := d.open(t)
		d.effects(t, db)
		u := &unsure{Connector: connector(t, d)}
		mine := sql.OpenDB(u)
		defer mine.Close()
		s := d.onceOn(t, mine)
		for i, lose := range []*atomic.Int32{&u.before, &u.behind} {
			m := testutil.Message("events.x", "x", testutil.Sequence(uint64(i+1)))
			lose.Store(1)
			if err := attempt(t, s.Handler(d.effect(nil)), m, 5*time.Second); !errors.Is(err, errLost) {
				t.Errorf("it returned %v", err)
			}
			wantCounts(t, db, "behind the first", 2*i, 2*i)
			must(t, attempt(t, s.Handler(d.effect(nil)), m, 5*time.Second))
			wantCounts(t, db, "behind the second", i+1, i+1)
		}
		if st := s.Stats(); st.Done != 1 || st.Skipped != 1 || st.CommitErrors != 2 {
			t.Errorf("%+v", st)
		}
	})
}

func connector(t *testing.T, d *database) driver.Connector {
	t.Helper()
	db := d.open(t)
	if c, ok := db.Driver().(driver.DriverContext); ok {
		out, err := c.OpenConnector(d.dsn)
		must(t, err)
		return out
	}
	return dsnConnector{db.Driver(), d.dsn}
}

type dsnConnector struct {
	driver driver.Driver
	dsn    string
}

func (c dsnConnector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c dsnConnector) Driver() driver.Driver                        { return c.driver }

// cutting is a connection to PostgreSQL that breaks at a commit: before it is sent, or when the server has it.
type cutting struct {
	net.Conn
	at *atomic.Int32 // 1 before, 2 behind
}

func (c *cutting) Write(b []byte) (int, error) {
	if !bytes.Contains(b, []byte("commit")) {
		return c.Conn.Write(b)
	}
	switch c.at.Swap(0) {
	case 1:
		_ = c.Close()
	case 2:
		_, _ = c.Conn.Write(b)
		one := make([]byte, 1)
		_, _ = c.Read(one) // the answer begins: it has been committed
		_ = c.Close()
	}
	return c.Conn.Write(b)
}

// The same with a real connection that breaks.
func TestConnectionThatBreaksAtCommit(t *testing.T) {
	d := newPostgres(t)
	db := d.open(t)
	d.effects(t, db)
	cfg, err := pgx.ParseConfig(d.dsn)
	must(t, err)
	var at atomic.Int32
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &cutting{c, &at}, err
	}
	mine := stdlib.OpenDB(*cfg)
	defer mine.Close()
	s := d.onceOn(t, mine)
	for i := range 2 {
		m := testutil.Message("events.x", "x", testutil.Sequence(uint64(i+1)))
		must(t, s.Prepare(t.Context()))
		at.Store(int32(i + 1))
		if err := attempt(t, s.Handler(d.effect(nil)), m, 5*time.Second); err == nil {
			t.Error("with a broken connection it returned nil")
		}
		wantCounts(t, db, "behind the first", 2*i, 2*i)
		must(t, attempt(t, s.Handler(d.effect(nil)), m, 5*time.Second))
		wantCounts(t, db, "behind the second", i+1, i+1)
	}
	if st := s.Stats(); st.Done != 1 || st.Skipped != 1 || st.CommitErrors != 2 {
		t.Errorf("%+v", st)
	}
}
