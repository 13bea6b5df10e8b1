package main

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"

	"github.com/ackfloor/ackfloor"
	_ "modernc.org/sqlite" // the driver
)

// openRows makes a database in a directory of its own, with a table, which closeRows takes away.
func openRows(ctx context.Context, in string, indexed bool) (_ *sql.DB, closeRows func(), _ error) {
	dir, err := os.MkdirTemp(in, "ackfloor-rows-")
	if err != nil {
		return nil, nil, err
	}
	db, err := newRows(ctx, dir, indexed)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, nil, err
	}
	return db, func() {
		_ = db.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

// newRows makes a database with a table.
func newRows(ctx context.Context, dir string, indexed bool) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "rows.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, "create table rows (stream_seq integer primary key, subject text not null, published integer not null, data blob not null)")
	if err == nil && indexed {
		_, err = db.ExecContext(ctx, "create index by_subject on rows (subject, published)")
	}
	return db, err
}

// insertRows writes rows in one transaction.
func insertRows(ctx context.Context, db *sql.DB, rows []*ackfloor.Message) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	into, err := tx.PrepareContext(ctx, "insert into rows values (?, ?, ?, ?)")
	if err != nil {
		return err
	}
	for _, m := range rows {
		if _, err := into.ExecContext(ctx, int64(m.Sequence), m.Subject, m.Published.UnixNano(), m.Data); err != nil {
			return err
		}
	}
	return tx.Commit()
}
