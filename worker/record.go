package worker

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// record is what workers tell one another about a message that failed or is suspected: the server counts deliveries, not attempts. It is
// kept in a key-value bucket, and written on failures and suspicions only.
type record struct {
	Consumer  int64     `json:"consumer"`           // when the consumer was made, nanoseconds since 1970: one that was made anew begins anew
	Published int64     `json:"published"`          // when the message was, nanoseconds since 1970: tells it from one of a stream of the same name made anew
	Known     uint64    `json:"known"`              // the delivery up to which it is known what became of each
	Failures  int       `json:"failures,omitempty"` // attempts that ended with a failure
	Deaths    int       `json:"deaths,omitempty"`   // attempts, alone in their process, that never ended
	First     time.Time `json:"first,omitzero"`     // failure
	Last      time.Time `json:"last,omitzero"`
	Until     time.Time `json:"until,omitzero"`   // where keys are kept in order: the next attempt is not before this
	Reason    string    `json:"reason,omitempty"` // of the last failure
	Error     string    `json:"error,omitempty"`
	Verdict   string    `json:"verdict,omitempty"` // why it is given up: it belongs into the dead letters, unseen by a handler
}

// failed counts one more failure.
func (p *record) failed(at time.Time, reason, err string) {
	p.Failures++
	p.Last, p.Reason, p.Error = at, reason, err
	if p.First.IsZero() {
		p.First = at
	}
}

// history is what is known of a message that the server has delivered before.
type history struct {
	deliveries uint64
	record     record // as it was read
	known      bool   // it could be read, or there is none, and records can be written
	behind     bool   // it has waited behind another of its key, which had not been settled when it was delivered before: no handler can have had it
	admitted   bool   // it has been looked at
	alone      bool   // it is a suspect: it has run, or is to run, with no other handler beside it
	marked     bool   // that it runs alone has been written down
}

// recordTTL is how long a record is kept; longer than any delay between two attempts should be.
const recordTTL = 7 * 24 * time.Hour

const (
	recordWait  = time.Second     // for one request to the bucket
	recordAgain = 5 * time.Second // after a write that failed, until the next is tried
	recordTrust = time.Minute     // for so long a bucket that fails is taken for one that will be back
)

// records reads and writes records. The zero value keeps none.
type records struct {
	kv       jetstream.KeyValue    // nil: none are kept
	consumer string                // and its stream, as they stand in a key
	born     int64                 // when the consumer was made
	broken   atomic.Int64          // since when no write succeeded, by the Runner's clock; 0: the last one did
	blind    atomic.Int64          // since when nothing could be read
	unread   atomic.Pointer[error] // what a read met with that nobody was told of
	again    atomic.Int64          // when a write is tried again meanwhile

	mu    sync.Mutex
	wrote [2]map[uint64]record // by this process lately, by sequence: the present generation, and the one before
}

// kept tells whether there are any.
func (s *records) kept() bool { return s.kv != nil }

func (s *records) key(seq uint64) string { return s.consumer + "." + strconv.FormatUint(seq, 10) }

// reading is what can be said of a record.
type reading int

const (
	recordRead  reading = iota // it is what there is
	recordLater                // it can't be told now, but will be
	recordNever                // no records are kept, or could not be written for long
)

// read returns the record of a message, an empty one where there is none.
func (s *records) read(ctx context.Context, c clock, seq uint64, published int64) (record, reading) {
	none := record{Published: published, Consumer: s.born}
	if s.kv == nil {
		return none, recordNever
	}
	can := recordRead
	if since := time.Duration(s.broken.Load()); since != 0 {
		can = recordLater
		if c.now() > since+recordTrust {
			can = recordNever
		}
	}
	rec, err := s.get(ctx, seq)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		s.blind.Store(0)
		return none, can
	}
	if err != nil { // nothing is written where nothing can be read, so this alone must not go on for ever
		if s.blind.CompareAndSwap(0, int64(max(c.now(), 1))) {
			s.unread.Store(&err)
		}
		if c.now() > time.Duration(s.blind.Load())+recordTrust {
			can = recordNever
		}
		return none, max(can, recordLater)
	}
	s.blind.Store(0)
	if rec.Published != published || rec.Consumer != s.born {
		return none, can
	}
	return rec, can
}

// wroteMost is how many records of its own a process remembers, twice.
const wroteMost = 4096

// remember keeps what this process has written, so that it need not read it again.
func (s *records) remember(seq uint64, rec record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrote[0] == nil || len(s.wrote[0]) >= wroteMost {
		s.wrote[0], s.wrote[1] = make(map[uint64]record), s.wrote[0]
	}
	s.wrote[0][seq] = rec
}

// recall returns the record of a delivery that this process wrote itself, if nobody else can have written since: the delivery before this one is the last
// that it tells of.
func (s *records) recall(seq uint64, published int64, deliveries uint64) (record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, ok := s.wrote[0][seq]
	if !ok {
		rec, ok = s.wrote[1][seq]
	}
	return rec, ok && rec.Published == published && rec.Known+1 == deliveries && s.broken.Load() == 0
}

// mend tries a write where the last one failed a while ago: without a failure nothing else would, and the bucket be distrusted for ever.
func (s *records) mend(ctx context.Context, c clock, d *delivery) {
	if s.broken.Load() == 0 || c.now() < time.Duration(s.again.Load()) {
		return
	}
	rec, err := s.get(ctx, d.msg.Sequence)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		rec, err = record{}, nil // of no message: it means nothing to who reads it
	}
	if err == nil {
		_ = s.write(ctx, c, d.msg.Sequence, &rec) // what it finds is kept in broken
	}
}

// get reads what is stored.
func (s *records) get(ctx context.Context, seq uint64) (record, error) {
	ctx, cancel := context.WithTimeout(ctx, recordWait)
	defer cancel()
	var rec record
	e, err := s.kv.Get(ctx, s.key(seq))
	if err == nil {
		err = json.Unmarshal(e.Value(), &rec)
	}
	return rec, err
}

// write stores a record, or with nil deletes it.
func (s *records) write(ctx context.Context, c clock, seq uint64, rec *record) error {
	if s.kv == nil || s.broken.Load() != 0 && c.now() < time.Duration(s.again.Load()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordWait)
	defer cancel()
	var err error
	if rec == nil {
		err = s.kv.Delete(ctx, s.key(seq))
	} else {
		var body []byte
		if body, err = json.Marshal(rec); err == nil {
			_, err = s.kv.Put(ctx, s.key(seq), body)
		}
	}
	if err != nil {
		s.again.Store(int64(c.now() + recordAgain))
		if !s.broken.CompareAndSwap(0, int64(max(c.now(), 1))) {
			return nil // said already
		}
		return err
	}
	s.broken.Store(0)
	return nil
}
