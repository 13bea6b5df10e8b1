//go:build unix

package drivers

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/once"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go/jetstream"
)

// Messages a second of a worker of 16 slots whose handler is one transaction of one INSERT in SQLite (WAL, synchronous=NORMAL, one connection): bare, and with
// the record of once.SQL beside it. Then of one that does nothing: bare, and with the marks of once.KV. Compare in one run only.
//
//	go test ./once/drivers -run '^$' -bench Worker -benchtime 20000x
func BenchmarkWorker(b *testing.B) {
	b.Run("transaction", func(b *testing.B) {
		d := benchDatabase(b)
		db := d.open(b)
		d.effects(b, db)
		throughput(b, func(*testutil.S) ackfloor.Handler {
			return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				defer func() { _ = tx.Rollback() }()
				if err := d.effect(nil)(ctx, tx, m); err != nil {
					return err
				}
				return tx.Commit()
			})
		})
	})
	b.Run("once.SQL", func(b *testing.B) {
		d := benchDatabase(b)
		db := d.open(b)
		d.effects(b, db)
		throughput(b, func(*testutil.S) ackfloor.Handler { return d.onceOn(b, db).Handler(d.effect(nil)) })
		wantCounts(b, db, "at the end", b.N, b.N)
	})
	b.Run("nothing", func(b *testing.B) { throughput(b, func(*testutil.S) ackfloor.Handler { return testutil.Succeed() }) })
	b.Run("once.KV", func(b *testing.B) {
		throughput(b, func(s *testutil.S) ackfloor.Handler {
			k, err := once.NewKV(s.JetStream(b), once.KVConfig{})
			must(b, err)
			must(b, k.Prepare(b.Context(), "EVENTS"))
			return k.Wrap(testutil.Succeed())
		})
	})
}

func benchDatabase(b *testing.B) *database {
	return &database{once.SQLite, "sqlite", sqliteDSN(filepath.Join(b.TempDir(), "data.db"))}
}

// throughput has a worker handle b.N messages.
func throughput(b *testing.B, handler func(*testutil.S) ackfloor.Handler) {
	s := testutil.Server(b)
	s.Events(b, b.N)
	var n atomic.Int64
	done := make(chan struct{})
	h := handler(s)
	b.ResetTimer()
	w := start(b, s, ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		err := h.Handle(ctx, m)
		if err == nil && n.Add(1) == int64(b.N) {
			close(done)
		}
		return err
	}), func(c *worker.Config) { c.Records = "off"; c.DeadLetter = "off" })
	<-done
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(0, "ns/op")
	w.end()
}

// What a mark of once.KV takes in the bucket: on disk, by the server's count.
func BenchmarkMarkSize(b *testing.B) {
	s := testutil.Server(b)
	js := s.JetStream(b)
	k, err := once.NewKV(js, once.KVConfig{})
	must(b, err)
	h := k.Wrap(testutil.Succeed())
	seq := uint64(0)
	for b.Loop() {
		seq++
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		must(b, h.Handle(ctx, testutil.Message("orders.new", "x", testutil.Stream("ORDERS"), testutil.Consumer("billing"), testutil.Sequence(seq))))
		cancel()
	}
	kv, err := js.KeyValue(b.Context(), "ackfloor_once")
	must(b, err)
	status, err := kv.Status(b.Context())
	must(b, err)
	b.ReportMetric(float64(status.(*jetstream.KeyValueBucketStatus).Bytes())/float64(seq), "bytes/mark")
}
