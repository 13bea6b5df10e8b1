package deadletter

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// ErrTooLarge is in the error of a letter that does not fit even in two parts: its message is about twice as large as the server now takes,
// or the dead-letter stream has a max_msg_size below what its letters need.
var ErrTooLarge = errors.New("deadletter: the message is too large for the dead-letter stream")

// What a message of a stream may have: 64 KiB less one of headers, since the store keeps their length in 16 bits (nats-server 2.15, stream.go
// processJetStreamMsg: len(hdr) > math.MaxUint16), and headers and payload together no more than max_payload. A kilobyte of the headers stays
// free: the server adds some where a message crosses accounts, and we do, to publish it.
const (
	maxHeader      = 1<<16 - 1 - 1024
	room           = 512     // for what is added to publish it
	defaultPayload = 1 << 20 // before a server has said its own
)

// parts is a letter as it is published.
type parts struct {
	header nats.Header
	data   []byte
	rest   []byte // nil for most: what is stored beside it, under restAt
	restAt string
}

// encode makes a letter, or a replay, of l. maxPayload is the server's limit.
//
// A message near the limits has no room for our headers. Its payload and its headers are then one run of bytes, cut in half. Both the run
// and the cut follow from the message alone, so that two workers that write the same letter at once write the same rest.
func encode(l *Letter, maxPayload int64) (parts, error) {
	if maxPayload <= 0 {
		maxPayload = defaultPayload
	}
	own := describe(l)
	if l.tail != nil { // as it was read: its rest is there already
		own[hdrTail] = []string{l.tail.String()}
		return parts{header: own, data: l.Data}, nil
	}
	plain, carried := split(l.Header)
	if carried != "" {
		plain[hdrCarried] = []string{carried}
	}
	maps.Copy(plain, own)
	if n := size(plain); n <= maxHeader && int64(n+room+len(l.Data)) <= maxPayload {
		return parts{header: plain, data: l.Data}, nil
	}
	run := append(append(make([]byte, 0, len(l.Data)+size(l.Header)), l.Data...), packHeader(l.Header)...)
	cut := (len(run) + 1) / 2
	at := place{kind: rest, stream: l.Stream, consumer: l.Consumer, seq: l.MessageSequence, born: born(l.Published)}.subject()
	own[hdrTail] = []string{(&tail{subject: at, data: len(l.Data), run: len(run)}).String()}
	if n := size(own) + room; int64(n+cut) > maxPayload {
		return parts{}, fmt.Errorf("%w: payload and headers are %d bytes, the server takes %d a message and a letter can have two", ErrTooLarge, len(run), maxPayload)
	}
	return parts{header: own, data: run[:cut], rest: run[cut:], restAt: at}, nil
}

// describe is what a letter says of itself.
func describe(l *Letter) nats.Header {
	h := make(nats.Header, 20)
	set := func(key, value string) {
		if value != "" {
			h[key] = []string{value}
		}
	}
	stamp := func(key string, t time.Time) {
		if !t.IsZero() {
			set(key, t.UTC().Format(time.RFC3339Nano))
		}
	}
	set(hdrSubject, l.Subject)
	set(hdrStream, l.Stream)
	set(hdrConsumer, l.Consumer)
	set(hdrSequence, strconv.FormatUint(l.MessageSequence, 10))
	stamp(hdrPublished, l.Published)
	set(hdrDeliveries, strconv.Itoa(l.Deliveries))
	set(hdrAttempts, strconv.Itoa(l.Attempts))
	set(hdrReason, clean(l.Reason, maxWord))
	set(hdrError, clean(l.Error, maxError))
	stamp(hdrFirst, l.FirstFailed)
	stamp(hdrLast, l.LastFailed)
	set(hdrHost, clean(l.Host, maxWord))
	set(hdrVersion, clean(l.Version, maxWord))
	if l.Replays > 0 {
		set(hdrReplays, strconv.Itoa(l.Replays))
	}
	if l.ReplayOf > 0 {
		set(hdrReplayOf, strconv.FormatUint(l.ReplayOf, 10))
	}
	return h
}

// errForeign says that a message was not written here: somebody else published it to that subject.
var errForeign = errors.New("deadletter: the message was not written as a letter")

// decode is the inverse of encode, but for what Complete adds. subject is where the message is stored.
func decode(subject string, h nats.Header, data []byte) (*Letter, error) {
	at, ok := parse(subject)
	if !ok || at.kind == rest {
		return nil, fmt.Errorf("%w: subject %q", errForeign, subject)
	}
	one := func(key string) string {
		if vs := h[key]; len(vs) > 0 {
			return vs[0]
		}
		return ""
	}
	var err error
	number := func(key string) uint64 {
		s := one(key)
		if s == "" {
			return 0
		}
		n, e := strconv.ParseUint(s, 10, 64)
		if e != nil {
			err = fmt.Errorf("%w: header %s is %q", errForeign, key, clean(s, maxWord))
		}
		return n
	}
	stamp := func(key string) time.Time {
		s := one(key)
		if s == "" {
			return time.Time{}
		}
		t, e := time.Parse(time.RFC3339Nano, s)
		if e != nil {
			err = fmt.Errorf("%w: header %s is %q", errForeign, key, clean(s, maxWord))
		}
		return t
	}
	l := &Letter{
		Subject: one(hdrSubject), Stream: one(hdrStream), Consumer: one(hdrConsumer),
		MessageSequence: number(hdrSequence), Published: stamp(hdrPublished), Data: data,
		Deliveries: int(number(hdrDeliveries)), Attempts: int(number(hdrAttempts)), Reason: one(hdrReason), Error: one(hdrError),
		FirstFailed: stamp(hdrFirst), LastFailed: stamp(hdrLast), Host: one(hdrHost), Version: one(hdrVersion),
		Replays: int(number(hdrReplays)), ReplayOf: number(hdrReplayOf), at: at,
	}
	if err == nil && (l.Subject == "" || l.Stream != at.stream || l.Consumer != at.consumer || l.MessageSequence != at.seq) {
		err = fmt.Errorf("%w: its headers and its subject %q differ", errForeign, subject)
	}
	if err != nil {
		return nil, err
	}
	if s := one(hdrTail); s != "" {
		l.tail, err = readTail(s, at)
		return l, err
	}
	l.Header, err = join(h)
	return l, err
}

// foreign is what can be said of a message that is stored where letters are and is none.
func foreign(subject string, h nats.Header, data []byte) *Letter {
	l := &Letter{Header: h, Data: data}
	if at, ok := parse(subject); ok {
		l.Stream, l.Consumer, l.MessageSequence = at.stream, at.consumer, at.seq
	} else if t := strings.Split(subject, "."); len(t) > 2 {
		l.Stream, l.Consumer = t[1], t[2]
	}
	return l
}
