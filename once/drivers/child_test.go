//go:build unix

package drivers

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/once"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go/jetstream"
)

// child is the program that a child process runs, by its name. It works on the database, or the file, that OUT names.
func child(kind string) {
	out := os.Getenv("OUT")
	switch kind {
	case "sql":
		db, err := sql.Open("sqlite", sqliteDSN(out))
		exitOn(err)
		db.SetMaxOpenConns(1)
		o, err := once.NewSQL(db, once.SQLConfig{Dialect: once.SQLite})
		exitOn(err)
		worker.Main(ackfloor.Chain(o.Handler(ledger), somewhat))
	case "kv":
		shutdown.Main(shutdown.Part{Name: "kv", Run: func(ctx context.Context) error { return runKV(ctx, out) }})
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(shutdown.ExitConfig)
	}
}

// somewhat takes some time before the handler.
func somewhat(h ackfloor.Handler) ackfloor.Handler {
	return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		wait(ctx, rand.N(15*time.Millisecond))
		return h.Handle(ctx, m)
	})
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// ledger adds a message's number to the one sum and writes it down. One in twenty takes a while in between, another one fails now and then behind both.
func ledger(ctx context.Context, tx *sql.Tx, m *ackfloor.Message) error {
	n, err := strconv.Atoi(string(m.Data))
	if err != nil {
		return ackfloor.Permanent(err)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE total SET sum = sum + ?", n); err != nil {
		return err
	}
	if rand.N(20) == 0 {
		wait(ctx, 5*time.Millisecond)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO effects (sequence, consumer) VALUES (?, ?)", int64(m.Sequence), m.Consumer); err != nil {
		return err
	}
	if rand.N(50) == 0 {
		return errWork
	}
	return nil
}

// runKV is a main of its own, with the marks on the worker's connection. Its effect is a line of a file, which is written, like the report of a doubt, by one call of
// the system: it is there as a whole or not at all.
func runKV(ctx context.Context, path string) error {
	cfg, err := worker.FromEnv("")
	if err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	nc, err := worker.Connect(ctx, cfg.Connection)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	k, err := once.NewKV(js, once.KVConfig{OnDoubt: func(d once.Doubt) { fmt.Fprintf(out, "doubt %d\n", d.Message.Sequence) }})
	if err != nil {
		return err
	}
	r, err := worker.New(nc, cfg, ackfloor.Chain(ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		_, err := fmt.Fprintf(out, "line %d\n", m.Sequence)
		wait(ctx, rand.N(3*time.Millisecond)) // a good moment to be killed
		return err
	}), somewhat, k.Wrap))
	if err != nil {
		return err
	}
	return r.Run(ctx)
}
