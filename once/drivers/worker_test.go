//go:build unix

package drivers

import (
	"context"
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/once"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// working is a worker on the consumer D of the stream EVENTS.
type working struct {
	t     testing.TB
	stop  context.CancelFunc
	ended chan error
}

func start(t testing.TB, s *testutil.S, h ackfloor.Handler, change ...func(*worker.Config)) *working {
	t.Helper()
	cfg := worker.Config{Stream: "EVENTS", Consumer: "D", RetrySchedule: "100ms", Logger: zap.NewNop()}
	for _, c := range change {
		c(&cfg)
	}
	r, err := worker.New(s.Conn(t), cfg, h)
	must(t, err)
	w := &working{t: t, ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	w.stop = stop
	go func() { w.ended <- r.Run(ctx) }()
	t.Cleanup(stop)
	return w
}

func (w *working) end() {
	w.t.Helper()
	w.stop()
	must(w.t, <-w.ended)
}

func floorAt(t testing.TB, s *testutil.S, floor int) {
	t.Helper()
	s.WaitInfo(t, "EVENTS", "D", time.Minute, "everything settled", func(i *jetstream.ConsumerInfo) bool {
		return i.AckFloor.Stream == uint64(floor) && i.NumAckPending == 0
	})
}

// A hundred messages are handled; the consumer is deleted and made anew at the first: nothing is handled again, and a hundred are skipped.
func TestSurvivesNewConsumer(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		db := d.open(t)
		d.effects(t, db)
		s := testutil.Server(t)
		s.Events(t, 100)
		var calls atomic.Int32
		fails := testutil.Fail(1, errWork)
		work := func(ctx context.Context, tx *sql.Tx, m *ackfloor.Message) error {
			calls.Add(1)
			if err := d.effect(nil)(ctx, tx, m); err != nil {
				return err
			}
			return fails.Handle(ctx, m)
		}
		first := d.once(t)
		w := start(t, s, first.Handler(work))
		floorAt(t, s, 100)
		w.end()
		if st := first.Stats(); st.Done != 100 || st.Skipped != 0 || calls.Load() != 200 {
			t.Fatalf("first: %+v, %d calls", st, calls.Load())
		}
		wantCounts(t, db, "first", 100, 100)
		must(t, s.JetStream(t).DeleteConsumer(t.Context(), "EVENTS", "D"))
		calls.Store(0)
		next := d.once(t)
		w = start(t, s, next.Handler(work))
		floorAt(t, s, 100)
		w.end()
		if st := next.Stats(); st != (once.SQLStats{Skipped: 100}) || calls.Load() != 0 {
			t.Errorf("again: %+v, %d calls", st, calls.Load())
		}
		wantCounts(t, db, "again", 100, 100)
	})
}

// A message whose last attempt was committed though the answer was lost is among the dead letters. Replayed, it is skipped; one that was not committed is handled.
func TestReplayOfWhatWasDone(t *testing.T) {
	d := newSQLite(t)
	db := d.open(t)
	d.effects(t, db)
	s := testutil.Server(t)
	s.Events(t, 2)
	u := &unsure{Connector: connector(t, d)}
	mine := sql.OpenDB(u)
	defer mine.Close()
	mine.SetMaxOpenConns(1)
	o := d.onceOn(t, mine)
	u.before.Store(1)
	u.behind.Store(1)
	w := start(t, s, o.Handler(d.effect(nil)), func(c *worker.Config) { c.MaxAttempts, c.Concurrency = 1, 1 })
	nc := s.Conn(t)
	var letters []*deadletter.Letter
	store, err := deadletter.Open(t.Context(), nc, "EVENTS_DLQ", "")
	for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		store, err = deadletter.Open(t.Context(), nc, "EVENTS_DLQ", "")
	}
	must(t, err)
	eventually(t, 10*time.Second, "two letters", func() bool {
		letters = nil
		for l, err := range store.List(t.Context(), deadletter.Filter{}) {
			if err == nil {
				letters = append(letters, l)
			}
		}
		return len(letters) == 2
	})
	wantCounts(t, db, "behind the attempts", 1, 1)
	for _, l := range letters {
		_, err := store.Replay(t.Context(), l)
		must(t, err)
	}
	eventually(t, 20*time.Second, "both replays", func() bool { st := o.Stats(); return st.Skipped == 1 && st.Done == 1 })
	w.end()
	wantCounts(t, db, "behind the replays", 2, 2)
}
