package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
)

// Journal is a file to which any number of processes append what happens to them, one line an event, each with one write: what is in it before a
// kill -9 stays in it. It may be used by several goroutines.
type Journal struct {
	path   string
	worker string
	file   *os.File
	calls  atomic.Uint64

	mu      sync.Mutex // of the reading
	events  []Event
	read    int64
	handled map[string]bool // by ID
}

var journals atomic.Uint64 // opened in this process

// OpenJournal opens the journal in the file, which it makes if need be.
func OpenJournal(path string) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("fault: opening the journal: %w", err)
	}
	return &Journal{path: path, file: f, worker: fmt.Sprintf("%d.%d", os.Getpid(), journals.Add(1)), handled: map[string]bool{}}, nil
}

// NewJournal makes a journal in a temporary directory of the test.
func NewJournal(t testing.TB) *Journal {
	t.Helper()
	j, err := OpenJournal(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// Path is the journal's file.
func (j *Journal) Path() string { return j.path }

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

// Again opens the journal another time: several workers in one process need one each, by which Check tells their slots apart.
func (j *Journal) Again() (*Journal, error) { return OpenJournal(j.path) }

// Wrap writes a line when h is called and one when it returns. It is an ackfloor.Middleware. A call that can't be written down fails, as a success
// that nobody can see would be taken for a loss.
func (j *Journal) Wrap(h ackfloor.Handler) ackfloor.Handler {
	return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) (err error) {
		e := Event{Kind: KindBegin, Call: j.calls.Add(1), ID: m.ID(), Stream: m.Stream, Consumer: m.Consumer, Sequence: m.Sequence, Attempt: m.Attempt,
			Subject: m.Subject, Key: Key(m)}
		if err := j.write(e); err != nil {
			return err
		}
		e.Kind, e.Error = KindEnd, "it did not return" // a panic, or runtime.Goexit
		defer func() {
			if failed := j.write(e); failed != nil {
				err = errors.Join(err, failed)
			}
		}()
		err = h.Handle(ctx, m)
		if e.Error = ""; err != nil {
			e.Error = "failed: " + err.Error() // never ""
		}
		return err
	})
}

// Settled writes down that the server has confirmed a settlement: an "ack", "nak" or "term". It has the parameters of what worker.Runner.OnSettled tells:
//
//	r.OnSettled(func(s worker.Settled) { journal.Settled(s.Sequence, s.Kind, s.Confirmed) })
//
// A confirmed of zero, which is no confirmation, is not written.
func (j *Journal) Settled(sequence uint64, kind string, confirmed time.Time) {
	if !confirmed.IsZero() {
		_ = j.write(Event{Kind: KindSettled, At: confirmed, Name: kind, Sequence: sequence})
	}
}

// write appends a line.
func (j *Journal) write(e Event) error {
	e.Worker = j.worker
	if e.At.IsZero() {
		e.At = time.Now()
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("fault: writing to the journal: %w", err)
	}
	return nil
}

// Events returns all events so far, of all processes, in the order in which they were written.
func (j *Journal) Events() ([]Event, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.catchUp(); err != nil {
		return nil, err
	}
	return slices.Clone(j.events), nil
}

// Handled tells for how many different messages a handler has returned nil so far. It is cheap: it reads what is new.
func (j *Journal) Handled() (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.catchUp()
	return len(j.handled), err
}

// catchUp reads what was appended since. Under j.mu.
func (j *Journal) catchUp() error {
	text, err := io.ReadAll(io.NewSectionReader(j.file, j.read, 1<<62))
	if err != nil {
		return fmt.Errorf("fault: reading the journal: %w", err)
	}
	events, read, err := parse(text)
	j.read += int64(read)
	j.events = append(j.events, events...)
	for _, e := range events {
		if e.succeeded() {
			j.handled[e.Consumer+" "+e.ID] = true
		}
	}
	return err
}
