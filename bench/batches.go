package main

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/bench/internal/figures"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// The mode batches: a worker that inserts batches of 1,000 messages into SQLite, against the same inserts alone and against Consume by hand, in turn.

const (
	modeBatches = "batches"
	batchRows   = 1000
)

// inserted is what one turn did.
type inserted struct {
	rate         float64 // rows a second
	self, server float64 // CPU, µs a row: of this process, and of the server
}

// inserter is one way to get the rows into the database. Only the first n messages are there to be inserted.
type inserter struct {
	name  string
	share int // it inserts one of so many: for what is slow
	run   func(ctx context.Context, b *bed, stream string, db *sql.DB, n int) (time.Duration, error)
}

var inserters = []inserter{
	{"the inserts alone", 1, insertAlone},
	{"Consume by hand, plain acks", 1, insertByHand(batchRows)},
	{"a worker of batches, one slot", 1, insertWorked(batchRows, 1)},
	{"a worker of batches, two slots", 1, insertWorked(batchRows, 2)},
	{"a worker, batches of one", 10, insertWorked(1, 1)},
	{"Consume by hand, a transaction for each", 10, insertByHand(1)},
}

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
	t.row("", "rows/s", "x", "CPU us/row", "of the server", "x if all cores were busy")
	type aim struct {
		what        string
		share, want float64
	}
	var bars []figures.Bar
	var aims []aim
	for _, indexed := range []bool{true, false} {
		what := map[bool]string{true: "index on subject and time", false: "no index"}[indexed]
		turns := make([][]inserted, len(inserters))
		for round := range opt.batchesRounds {
			for i, in := range inserters {
				one, err := b.insert(ctx, opt, stream, indexed, in)
				if err != nil {
					return fmt.Errorf("%s: %w", in.name, err)
				}
				turns[i] = append(turns[i], one)
				opt.progress("batches: %s: round %d: %s %.0f rows/s", what, round+1, in.name, one.rate)
			}
		}
		for i, in := range inserters {
			rate, share, self, server, bound := medians(turns[0], turns[i])
			t.row(what+": "+in.name, fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.2f", share), fmt.Sprintf("%.1f", self), fmt.Sprintf("%.1f", server), fmt.Sprintf("%.2f", bound))
			switch i {
			case 2:
				_, share, _, _, _ := medians(turns[len(inserters)-1], turns[i])
				aims = append(aims, aim{"batches of 1,000 into SQLite, against a transaction for each message, " + what, share, 3})
			case 3:
				aims = append(aims, aim{"batches of 1,000 into SQLite, against the inserts alone, " + what, share, 0.8})
			}
			bars = append(bars, figures.Bar{Name: in.name + ", " + what, Y: rate})
		}
	}
	t.flush()
	t.chart(figures.Chart{Name: "batches", Title: "Rows into SQLite", Y: figures.Axis{Label: "rows a second"}, Bars: bars})
	for _, a := range aims {
		t.aim(a.what, a.share, atLeast, a.want)
	}
	return nil
}

// medians compares turns with those of the inserts alone in the same rounds. bound is the share that the CPU of both processes would allow if every core were busy all the time.
func medians(alone, turns []inserted) (rate, share, self, server, bound float64) {
	var rates, shares, selves, servers, bounds []float64
	for i, one := range turns {
		rates, shares = append(rates, one.rate), append(shares, one.rate/alone[i].rate)
		selves, servers = append(selves, one.self), append(servers, one.server)
		bounds = append(bounds, 1e6*float64(runtime.NumCPU())/(one.self+one.server)/alone[i].rate)
	}
	return median(rates), median(shares), median(selves), median(servers), median(bounds)
}

// insert is one turn.
func (b *bed) insert(ctx context.Context, opt options, stream string, indexed bool, in inserter) (inserted, error) {
	db, closeRows, err := openRows(ctx, opt.dir, indexed)
	if err != nil {
		return inserted{}, err
	}
	defer closeRows()
	n := opt.batchesN / in.share
	self, server := workOf("self"), workOf(b.pid)
	took, err := in.run(ctx, b, stream, db, n)
	if err != nil {
		return inserted{}, err
	}
	per := func(pid string, before work) float64 {
		return float64(workOf(pid).since(before).CPU.Microseconds()) / float64(n)
	}
	return inserted{float64(n) / took.Seconds(), per("self", self), per(b.pid, server)}, nil
}

// insertAlone inserts the rows without a server.
func insertAlone(ctx context.Context, _ *bed, _ string, db *sql.DB, n int) (time.Duration, error) {
	body := make([]byte, bodySize)
	began := time.Now()
	for done := 0; done < n; done += batchRows {
		rows := make([]*ackfloor.Message, min(batchRows, n-done))
		for i := range rows {
			rows[i] = &ackfloor.Message{Subject: "BATCHES", Sequence: uint64(done + i + 1), Published: time.Now(), Data: body}
		}
		if err := insertRows(ctx, db, rows); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// insertByHand is what one writes with nats.go: the callback of Consume collects, inserts when there are enough, and acknowledges each without waiting for a confirmation.
func insertByHand(size int) func(context.Context, *bed, string, *sql.DB, int) (time.Duration, error) {
	return func(ctx context.Context, b *bed, stream string, db *sql.DB, n int) (time.Duration, error) {
		return b.insertByHand(ctx, stream, db, n, size)
	}
}

func (b *bed) insertByHand(ctx context.Context, stream string, db *sql.DB, n, size int) (time.Duration, error) {
	nc, err := nats.Connect(b.url)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return 0, err
	}
	b.made++
	name := fmt.Sprintf("by-hand-%d", b.made)
	c, err := js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: 3 * batchRows})
	if err != nil {
		return 0, err
	}
	defer b.forget(ctx, stream, name)
	var took time.Duration
	var failed firstError
	var rows []*ackfloor.Message
	var waiting []jetstream.Msg
	sum, all := 0, make(chan struct{})
	began := time.Now()
	consuming, err := c.Consume(func(m jetstream.Msg) {
		if sum == n || failed.get() != nil {
			return
		}
		meta, err := m.Metadata()
		if err != nil {
			failed.set(err)
			return
		}
		rows = append(rows, &ackfloor.Message{Subject: m.Subject(), Sequence: meta.Sequence.Stream, Published: meta.Timestamp, Data: m.Data()})
		waiting = append(waiting, m)
		if len(rows) < size && sum+len(rows) < n {
			return
		}
		failed.set(insertRows(ctx, db, rows))
		sum += len(rows)
		if sum == n {
			took = time.Since(began)
		}
		for _, m := range waiting {
			failed.set(m.Ack())
		}
		rows, waiting = nil, nil
		if sum == n || failed.get() != nil {
			close(all)
		}
	}, jetstream.PullMaxMessages(2*batchRows))
	if err != nil {
		return 0, err
	}
	select {
	case <-all:
	case <-ctx.Done():
		failed.set(context.Cause(ctx))
	}
	consuming.Stop()
	return took, failed.get()
}

// insertWorked has a worker do it. With two slots one inserts while the other settles its batch and takes the next: the database lets one insert at a time.
func insertWorked(size, slots int) func(context.Context, *bed, string, *sql.DB, int) (time.Duration, error) {
	return func(ctx context.Context, b *bed, stream string, db *sql.DB, n int) (time.Duration, error) {
		b.made++
		name := fmt.Sprintf("batches-%d", b.made) // made by the worker, with room for its batches
		defer b.forget(ctx, stream, name)
		var rows, took atomic.Int64
		began, all := time.Now(), make(chan struct{})
		h := ackfloor.BatchHandlerFunc(func(ctx context.Context, batch *ackfloor.Batch) error {
			if err := insertRows(ctx, db, batch.Messages); err != nil {
				return err
			}
			if sum := rows.Add(int64(len(batch.Messages))); sum >= int64(n) && sum-int64(len(batch.Messages)) < int64(n) {
				took.Store(int64(time.Since(began)))
				close(all)
			}
			return nil
		})
		cfg := worker.Config{Logger: zap.NewNop(), DeadLetter: "off", Records: "off", Concurrency: slots, BatchSize: size, BatchLinger: 50 * time.Millisecond}
		_, stop, err := startRunner(ctx, b.at(stream, name), cfg, func(nc *nats.Conn, c worker.Config) (*worker.Runner, error) { return worker.NewBatch(nc, c, h) })
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
		return time.Duration(took.Load()), nil
	}
}
