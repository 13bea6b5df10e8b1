//go:build unix

package drivers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/once"
	"github.com/ackfloor/ackfloor/testutil"
)

var errWork = errors.New("the work failed")

// effect is a handler that makes one row, and then answers.
func (d *database) effect(answer func(ctx context.Context, tx *sql.Tx) error) func(context.Context, *sql.Tx, *ackfloor.Message) error {
	return func(ctx context.Context, tx *sql.Tx, m *ackfloor.Message) error {
		if _, err := tx.ExecContext(ctx, d.insertEffect(), int64(m.Sequence), m.Consumer); err != nil {
			return err
		}
		if answer == nil {
			return nil
		}
		return answer(ctx, tx)
	}
}

// attempt is one call, as a worker makes it: with a deadline, and with panics and Goexit turned into errors.
func attempt(t *testing.T, h ackfloor.Handler, m *ackfloor.Message, limit time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, ackfloor.ErrHandleTimeout)
	defer cancel()
	return call(ctx, h, m)
}

func call(ctx context.Context, h ackfloor.Handler, m *ackfloor.Message) (err error) {
	ended := make(chan struct{})
	go func() {
		err = &ackfloor.PanicError{Goexit: true}
		defer close(ended)
		defer func() {
			if p := recover(); p != nil {
				err = &ackfloor.PanicError{Value: p}
			}
		}()
		err = h.Handle(ctx, m)
	}()
	<-ended
	return err
}

func is[E error](err error) bool { _, ok := errors.AsType[E](err); return ok }

// An effect and its record are one. Whatever an attempt ends with but a commit, neither is there; and what the handler returned reaches the worker as it is.
func TestFailedIsNotDone(t *testing.T) {
	returned := func(err error) func(context.Context, *sql.Tx) error {
		return func(context.Context, *sql.Tx) error { return err }
	}
	each(t, func(t *testing.T, d *database) {
		db := d.open(t)
		d.effects(t, db)
		s := d.once(t)
		records, effects := 0, 0
		for i, tt := range []struct {
			name   string
			answer func(context.Context, *sql.Tx) error
			is     func(error) bool
		}{
			{"an error", returned(errWork), func(err error) bool { return err == errWork }},
			{"Permanent", returned(ackfloor.Permanent(errWork)), is[*ackfloor.PermanentError]},
			{"RetryAfter", returned(ackfloor.RetryAfter(time.Hour, errWork)), is[*ackfloor.RetryAfterError]},
			{"Pause", returned(ackfloor.Pause(time.Hour, errWork)), is[*ackfloor.PauseError]},
			{"a panic", func(context.Context, *sql.Tx) error { panic("p") }, is[*ackfloor.PanicError]},
			{"Goexit", func(ctx context.Context, _ *sql.Tx) error { return testutil.Goexit().Handle(ctx, nil) }, is[*ackfloor.PanicError]},
			{"a context that ended, and nil", func(ctx context.Context, _ *sql.Tx) error { <-ctx.Done(); return nil }, func(err error) bool { return err != nil }},
			{"a rollback of its own, and nil", func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() }, func(err error) bool { return errors.Is(err, sql.ErrTxDone) }},
		} {
			m := testutil.Message("events.x", "x", testutil.Sequence(uint64(i+1)))
			if err := attempt(t, s.Handler(d.effect(tt.answer)), m, 300*time.Millisecond); !tt.is(err) {
				t.Errorf("%s: it returned %v", tt.name, err)
			}
			eventually(t, 5*time.Second, tt.name+": the rollback", func() bool {
				records = count(t, db, "ackfloor_once")
				return count(t, db, "effects") == effects && records == effects
			})
			for range 2 {
				must(t, attempt(t, s.Handler(d.effect(nil)), m, 10*time.Second))
			}
			effects++
			wantCounts(t, db, tt.name, effects, effects)
		}
		if st := s.Stats(); st != (once.SQLStats{Done: 8, Skipped: 8, CommitErrors: 2}) {
			t.Errorf("%+v", st)
		}
	})
}

// It is rolled back before the worker hears of it, so that nothing of an attempt is left when the next one begins, or when a Permanent has its dead letter.
func TestRolledBackBeforeItReturns(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		db := d.open(t)
		db.SetMaxOpenConns(1)
		d.effects(t, db)
		s := d.onceOn(t, db)
		for name, answer := range map[string]ackfloor.Handler{"an error": testutil.Fail(-1, errWork), "a panic": testutil.Panic("p"), "Goexit": testutil.Goexit()} {
			m := testutil.Message("events.x", "x")
			if err := call(t.Context(), s.Handler(d.effect(func(ctx context.Context, _ *sql.Tx) error { return answer.Handle(ctx, m) })), m); err == nil {
				t.Errorf("%s: it returned nil", name)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			var n int
			if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM effects").Scan(&n); err != nil || n != 0 {
				t.Errorf("%s: %d effects, %v", name, n, err)
			}
			cancel()
		}
	})
}

// A context that has ended is seen before the commit, also where database/sql, which watches a child of it, has not heard of it yet.
func TestEndedContextIsNotCommitted(t *testing.T) {
	d := newSQLite(t)
	db := d.open(t)
	d.effects(t, db)
	ctx := &ending{Context: t.Context()}
	h := d.once(t).Handler(d.effect(func(context.Context, *sql.Tx) error { ctx.ended.Store(true); return nil }))
	if err := h.Handle(ctx, testutil.Message("events.x", "x")); !errors.Is(err, context.Canceled) {
		t.Errorf("it returned %v", err)
	}
	if n := count(t, db, "effects"); n != 0 {
		t.Errorf("%d effects", n)
	}
}

// ending is a context that has ended before it says so on its channel.
type ending struct {
	context.Context
	ended atomic.Bool
}

func (e *ending) Err() error {
	if e.ended.Load() {
		return context.Canceled
	}
	return nil
}

// A handler that commits by itself has committed the record too: it comes again, and is skipped.
func TestCommitOfOnesOwn(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		db := d.open(t)
		d.effects(t, db)
		s := d.once(t)
		m := testutil.Message("events.x", "x")
		h := s.Handler(d.effect(func(_ context.Context, tx *sql.Tx) error { return tx.Commit() }))
		if err := attempt(t, h, m, time.Second); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("it returned %v", err)
		}
		must(t, attempt(t, h, m, time.Second))
		wantCounts(t, db, "behind both", 1, 1)
	})
}

// A statement that failed spoils a transaction of PostgreSQL: a handler that hides that and returns nil has not done its work, and is told.
func TestHiddenErrorIsNoCommit(t *testing.T) {
	d := newPostgres(t)
	db := d.open(t)
	d.effects(t, db)
	s := d.once(t)
	m := testutil.Message("events.x", "x")
	err := attempt(t, s.Handler(d.effect(func(ctx context.Context, tx *sql.Tx) error { _, _ = tx.ExecContext(ctx, "no SQL"); return nil })), m, time.Second)
	if err == nil || !strings.Contains(err.Error(), "once: commit") {
		t.Errorf("it returned %v", err)
	}
	wantCounts(t, db, "behind it", 0, 0)
}

// Many processes with one message at the same time: one has its effect, whatever the others come to.
func TestOneOfManyCommits(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelSerializable} {
			t.Run(level.String(), func(t *testing.T) {
				_, _ = d.open(t).ExecContext(t.Context(), "DROP TABLE effects")
				db := d.open(t)
				d.effects(t, db)
				const processes, messages = 6, 20
				var nils, errs atomic.Int32
				var all sync.WaitGroup
				at := time.Now()
				for range processes {
					s := d.once(t, func(c *once.SQLConfig) { c.Isolation = level })
					all.Go(func() {
						for i := range messages {
							m := testutil.Message("events.x", "x", testutil.Sequence(uint64(i+1)), testutil.Published(at))
							switch err := attempt(t, s.Handler(d.effect(nil)), m, 20*time.Second); {
							case err == nil:
								nils.Add(1)
							default:
								errs.Add(1)
								t.Logf("as it may: %v", err)
							}
						}
					})
				}
				all.Wait()
				if e := count(t, db, "(SELECT sequence FROM effects GROUP BY sequence HAVING COUNT(*) > 1) twice"); e != 0 || nils.Load()+errs.Load() != processes*messages {
					t.Errorf("%d messages had their effect twice", e)
				}
				s := d.once(t)
				for i := range messages {
					must(t, attempt(t, s.Handler(d.effect(nil)), testutil.Message("events.x", "x", testutil.Sequence(uint64(i+1)), testutil.Published(at)), time.Second))
				}
				if e := count(t, db, "effects"); e != messages {
					t.Errorf("%d effects of %d messages", e, messages)
				}
			})
		}
	})
}

// A second process waits for the transaction of the first, and skips when that commits, and handles when it does not.
func TestSecondWaitsForFirst(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		db := d.open(t)
		d.effects(t, db)
		for i, answer := range []error{nil, errWork} {
			a, b := d.once(t), d.once(t)
			must(t, a.Prepare(t.Context()))
			m := testutil.Message("events.x", "x", testutil.Sequence(uint64(i+1)))
			inside, first := make(chan struct{}), make(chan error, 1)
			go func() {
				first <- attempt(t, a.Handler(d.effect(func(context.Context, *sql.Tx) error { close(inside); time.Sleep(300 * time.Millisecond); return answer })), m, 5*time.Second)
			}()
			<-inside
			must(t, attempt(t, b.Handler(d.effect(nil)), m, 5*time.Second))
			if err := <-first; err != answer {
				t.Errorf("the first returned %v", err)
			}
			if n := count(t, db, fmt.Sprintf("effects WHERE sequence = %d", i+1)); n != 1 || b.Stats().Skipped != uint64(1-i) {
				t.Errorf("the first returned %v: %d effects, %+v", answer, n, b.Stats())
			}
		}
	})
}

// Another stream of the name, another consumer, another sequence, another time: other messages.
func TestMessagesAreToldApart(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		db := d.open(t)
		d.effects(t, db)
		s := d.once(t)
		at := time.Now()
		others := [][]testutil.MessageOption{
			{}, {testutil.Sequence(2)}, {testutil.Stream("ÄRA")}, {testutil.Consumer("größe=1")}, {testutil.Published(at.Add(1))}, {testutil.Consumer("Test")},
			{testutil.Consumer("tést")}, {testutil.Consumer(strings.Repeat("x", 255))}, {testutil.Sequence(1<<63 + 1)}, {testutil.Consumer("test\t")},
		}
		for _, o := range others {
			o = append([]testutil.MessageOption{testutil.Published(at)}, o...)
			for range 2 {
				must(t, attempt(t, s.Handler(d.effect(nil)), testutil.Message("events.x", "x", o...), 10*time.Second))
			}
		}
		wantCounts(t, db, "of ten messages, each twice", len(others), len(others))
		tooLong := testutil.Message("events.x", "x", testutil.Consumer(strings.Repeat("x", 256)))
		if err := attempt(t, s.Handler(d.effect(nil)), tooLong, time.Second); err == nil {
			t.Error("a name that no server has is cut")
		}
	})
}

// With the payload as JSON; what can't be decoded is Permanent, and leaves nothing.
func TestJSON(t *testing.T) {
	d := newSQLite(t)
	db := d.open(t)
	d.effects(t, db)
	s := d.once(t)
	h := once.JSON(s, func(ctx context.Context, tx *sql.Tx, n int64, m *ackfloor.Message) error {
		_, err := tx.ExecContext(ctx, d.insertEffect(), n, m.Consumer)
		return err
	})
	for range 2 {
		must(t, attempt(t, h, testutil.Message("events.x", 42, testutil.Published(time.Unix(1, 0))), time.Second))
	}
	if err := attempt(t, h, testutil.Message("events.x", "{", testutil.Sequence(2)), time.Second); !is[*ackfloor.PermanentError](err) || !is[*ackfloor.DecodeError](err) {
		t.Errorf("it returned %v", err)
	}
	if n := count(t, db, "effects WHERE sequence = 42"); n != 1 || count(t, db, "ackfloor_once") != 1 {
		t.Errorf("%d effects", n)
	}
}
