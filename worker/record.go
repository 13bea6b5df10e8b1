package worker

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
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
	kv       jetstream.KeyValue // nil: none are kept
	consumer string             // and its stream, as they stand in a key
	born     int64              // when the consumer was made
	broken   atomic.Int64       // since when no write succeeded, by the Runner's clock; 0: the last one did
	again    atomic.Int64       // when a write is tried again meanwhile
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
		return none, can
	}
	if err != nil {
		return none, max(can, recordLater)
	}
	if rec.Published != published || rec.Consumer != s.born {
		return none, can
	}
	return rec, can
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

// openRecords finds or makes the bucket. Where that is not permitted, attempts are counted by deliveries, and it says so.
func (r *Runner) openRecords(ctx context.Context) error {
	switch {
	case r.cfg.Records == off:
		return nil
	case r.source != nil: // the same bucket, and keys beside those of the messages
		r.records.kv, r.records.consumer, r.records.born = r.source.records.kv, r.source.records.consumer+".replay", r.bound.info.Created.UnixNano()
		return nil
	}
	info := r.subjects.prefix + "STREAM.INFO.KV_" + r.cfg.Records
	var stream jetstream.StreamInfo
	err := r.request(ctx, info, nil, &stream)
	var denied *PermissionError
	switch {
	case err == nil:
	case errors.As(err, &denied):
		r.withoutRecords(denied)
		return nil
	case apiCode(err) == codeStreamNotFound && r.cfg.Bind == BindExisting:
		r.withoutRecords(fmt.Errorf("there is no bucket %q, and BIND=existing makes none", r.cfg.Records))
		return nil
	case apiCode(err) != codeStreamNotFound:
		return err // perhaps an election: once more
	}
	if err != nil {
		if err = r.makeBucket(ctx); errors.As(err, &denied) {
			r.withoutRecords(denied)
			return nil
		} else if err != nil {
			return err
		}
	}
	js, err := r.jetStream()
	if err != nil {
		return err
	}
	kv, err := js.KeyValue(ctx, r.cfg.Records)
	if err != nil {
		return err
	}
	if err := r.mayWrite(ctx); err != nil {
		r.withoutRecords(err)
		return nil
	}
	r.records.kv, r.records.consumer, r.records.born = kv, r.recordKeys(), r.bound.info.Created.UnixNano()
	return nil
}

// recordKeys is what the keys of this consumer begin with: several streams may share a bucket.
func (r *Runner) recordKeys() string { return keyToken(r.cfg.Stream) + "." + keyToken(r.cfg.Consumer) }

// keyToken makes of a consumer's name a token that may stand in a key of a bucket, which takes fewer characters.
func keyToken(name string) string {
	if plainName(name) {
		return name
	}
	return "=" + hex.EncodeToString([]byte(name))
}

// bucketName makes of a stream's name what may stand in the name of a bucket.
func bucketName(stream string) string {
	return strings.Map(func(c rune) rune {
		if plainName(string(c)) {
			return c
		}
		return '_'
	}, stream)
}

// plainName holds for letters, digits, - and _, of which the names of buckets are made.
func plainName(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	})
}

// makeBucket makes the bucket as the client's own CreateKeyValue does (nats.go 1.55), without asking for the account's limits first, for which
// few users have the right.
func (r *Runner) makeBucket(ctx context.Context) error {
	cfg := jetstream.StreamConfig{
		Name: "KV_" + r.cfg.Records, Description: "Ackfloor: failures and suspicions of messages of " + r.cfg.Stream,
		Subjects: []string{"$KV." + r.cfg.Records + ".>"}, MaxMsgsPerSubject: 1, MaxAge: recordTTL, Replicas: r.replicas(),
		Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, AllowDirect: true, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1,
	}
	var made jetstream.StreamInfo
	create := func() error {
		body, err := json.Marshal(cfg)
		if err != nil {
			return err
		}
		return r.request(ctx, r.subjects.prefix+"STREAM.CREATE."+cfg.Name, body, &made)
	}
	err := create()
	if apiCode(err) == codeMaxBytesRequired {
		cfg.MaxBytes = 64 << 20
		err = create()
	}
	return err
}

// mayWrite asks to store a record on a condition that can't be met: the refusal tells that the user may write, and nothing is stored.
func (r *Runner) mayWrite(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recordWait)
	defer cancel()
	subject := "$KV." + r.cfg.Records + "." + r.recordKeys() + ".0"
	if r.subjects.prefix != defaultAPI {
		subject = r.subjects.prefix + subject
	}
	m := nats.NewMsg(subject)
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, "18446744073709551615")
	if _, err := r.nc.RequestMsgWithContext(ctx, m); err != nil {
		if denied := r.denied(subject); denied != nil {
			denied.Allow = subject[:len(subject)-1] + ">"
			return denied
		}
		return fmt.Errorf("bucket %q does not answer: %w", r.cfg.Records, err)
	}
	return nil
}

// withoutRecords says what follows where no records can be kept.
func (r *Runner) withoutRecords(err error) {
	r.log.Warn("attempts are counted by the server's deliveries, and a message that kills its process is known by these only: no bucket for records",
		zap.String("bucket", r.cfg.Records), zap.String("error", shown(err.Error())))
}
