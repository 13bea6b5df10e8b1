package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	_ "modernc.org/sqlite" // the driver
)

// The mode batches: a worker that inserts batches of 1,000 messages into SQLite, against the same inserts alone, in turn.

const (
	modeBatches = "batches"
	batchRows   = 1000
)

// batched measures, and writes the table.
func batched(ctx context.Context, b *bed, opt options, t *table) error {
	const stream = "BATCHES"
	if err := b.stream(ctx, stream); err != nil {
		return err
	}
	if err := b.fill(ctx, stream, opt.batchesN, bodySize); err != nil {
		return err
	}
	t.title("Batches: %d messages of %d bytes into SQLite (WAL, synchronous=normal), %d a transaction, one at a time; %d rounds, medians", opt.batchesN, bodySize, batchRows, opt.batchesRounds)
	t.row("", "rows/s", "x")
	for _, indexed := range []bool{true, false} {
		var alone, worked, single, shares []float64
		what := map[bool]string{true: "table with an index on subject and time", false: "table without an index"}[indexed]
		for round := range opt.batchesRounds {
			a, err := insertAlone(ctx, opt, indexed)
			if err != nil {
				return err
			}
			w, err := b.insertWorked(ctx, opt, stream, indexed, batchRows)
			if err != nil {
				return err
			}
			s, err := b.insertWorked(ctx, opt, stream, indexed, 1)
			if err != nil {
				return err
			}
			alone, worked, single, shares = append(alone, a), append(worked, w), append(single, s), append(shares, w/a)
			opt.progress("batches: %s: round %d: alone %.0f rows/s, worker %.0f, one by one %.0f", what, round+1, a, w, s)
		}
		t.row(what+": the inserts alone", fmt.Sprintf("%.0f", median(alone)), "1.00")
		t.row("a worker of batches", fmt.Sprintf("%.0f", median(worked)), fmt.Sprintf("%.2f", median(shares)))
		t.row("a worker, batches of one", fmt.Sprintf("%.0f", median(single)), fmt.Sprintf("%.2f", median(single)/median(alone)))
		defer t.aim("batches of 1,000 into SQLite, against the inserts alone, "+what, median(shares), atLeast, 0.8)
	}
	t.flush()
	return nil
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

// insert writes rows in one transaction.
func insert(ctx context.Context, db *sql.DB, rows []*ackfloor.Message) error {
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

// insertAlone inserts the rows without a worker, and returns how many a second.
func insertAlone(ctx context.Context, opt options, indexed bool) (float64, error) {
	dir, remove, err := tempDir(opt.dir)
	if err != nil {
		return 0, err
	}
	defer remove()
	db, err := newRows(ctx, dir, indexed)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	body := make([]byte, bodySize)
	began := time.Now()
	for done := 0; done < opt.batchesN; done += batchRows {
		rows := make([]*ackfloor.Message, min(batchRows, opt.batchesN-done))
		for i := range rows {
			rows[i] = &ackfloor.Message{Subject: "BATCHES", Sequence: uint64(done + i + 1), Published: time.Now(), Data: body}
		}
		if err := insert(ctx, db, rows); err != nil {
			return 0, err
		}
	}
	return float64(opt.batchesN) / time.Since(began).Seconds(), nil
}

// insertWorked has a worker do it.
func (b *bed) insertWorked(ctx context.Context, opt options, stream string, indexed bool, size int) (float64, error) {
	dir, remove, err := tempDir(opt.dir)
	if err != nil {
		return 0, err
	}
	defer remove()
	db, err := newRows(ctx, dir, indexed)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	b.made++
	name := fmt.Sprintf("batches-%d", b.made) // made by the worker, with room for two batches
	defer b.forget(ctx, stream, name)
	n := opt.batchesN
	if size == 1 {
		n /= 10 // it is slow
	}
	var rows atomic.Int64
	var took time.Duration
	began, all := time.Now(), make(chan struct{})
	h := ackfloor.BatchHandlerFunc(func(ctx context.Context, batch *ackfloor.Batch) error {
		if err := insert(ctx, db, batch.Messages); err != nil {
			return err
		}
		if sum := rows.Add(int64(len(batch.Messages))); sum >= int64(n) && sum-int64(len(batch.Messages)) < int64(n) {
			took = time.Since(began)
			close(all)
		}
		return nil
	})
	cfg := worker.Config{Logger: zap.NewNop(), DeadLetter: "off", Records: "off", Concurrency: 1, BatchSize: size, BatchLinger: 50 * time.Millisecond}
	_, stop, err := startRunner(ctx, target{b.url, stream, name}, cfg, func(nc *nats.Conn, c worker.Config) (*worker.Runner, error) { return worker.NewBatch(nc, c, h) })
	if err != nil {
		return 0, err
	}
	select {
	case <-all:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if err := stop(); err != nil {
		return 0, err
	}
	if got := int(rows.Load()); size > 1 && got != n {
		return 0, fmt.Errorf("%d rows of %d", got, n)
	}
	return float64(n) / took.Seconds(), nil
}

// tempDir makes a directory that remove takes away.
func tempDir(in string) (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(in, "ackfloor-rows-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
