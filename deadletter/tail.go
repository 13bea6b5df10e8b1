package deadletter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// ErrIncomplete is in the error of a letter whose second part is gone: a message too large for one was kept in two, and the other was removed
// or has expired.
var ErrIncomplete = errors.New("deadletter: the rest of a large message is gone")

// tail says where the rest of a letter is.
type tail struct {
	subject string
	data    int // length of the payload
	run     int // length of payload and headers
}

func (t *tail) String() string { return fmt.Sprintf("%s %d %d", t.subject, t.data, t.run) }

// readTail reads the header. The place must be that of the same message: a letter can't name another's.
func readTail(s string, of place) (*tail, error) {
	f := strings.Split(s, " ")
	if len(f) == 3 {
		at, ok := parse(f[0])
		data, err1 := strconv.Atoi(f[1])
		run, err2 := strconv.Atoi(f[2])
		if ok && at.kind == rest && at.stream == of.stream && at.consumer == of.consumer && at.seq == of.seq &&
			err1 == nil && err2 == nil && data >= 0 && run >= data {
			return &tail{subject: f[0], data: data, run: run}, nil
		}
	}
	return nil, fmt.Errorf("%w: header %s is %q", errForeign, hdrTail, clean(s, maxWord))
}

// Incomplete tells whether a part of the letter is stored beside it and was not fetched yet: Data then is only the beginning of the payload,
// and Header is nil. Writer.Complete and Store.Get fetch it. It happens to messages that had no room for a letter's headers.
func (l *Letter) Incomplete() bool { return l.tail != nil }

// attach completes a letter.
func (l *Letter) attach(more []byte) error {
	t := l.tail
	if len(l.Data)+len(more) != t.run {
		return fmt.Errorf("%w: %q has %d bytes, not %d", ErrIncomplete, t.subject, len(more), t.run-len(l.Data))
	}
	run := append(append(make([]byte, 0, t.run), l.Data...), more...)
	h, err := unpackHeader(run[t.data:])
	if err != nil {
		return err
	}
	l.Data, l.Header, l.tail = run[:t.data:t.data], h, nil
	return nil
}

// packFormat is the first byte of packed headers.
const packFormat = 1

// packHeader writes headers so that every byte of them survives, and the same headers always give the same bytes.
func packHeader(h nats.Header) []byte {
	b := append(make([]byte, 0, size(h)), packFormat)
	b = binary.AppendUvarint(b, uint64(len(h)))
	put := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	for _, k := range slices.Sorted(maps.Keys(h)) {
		put(k)
		b = binary.AppendUvarint(b, uint64(len(h[k])))
		for _, v := range h[k] {
			put(v)
		}
	}
	return b
}

// unpackHeader is the inverse of packHeader.
func unpackHeader(b []byte) (nats.Header, error) {
	bad := fmt.Errorf("%w: its headers can't be read", errForeign)
	if len(b) == 0 || b[0] != packFormat {
		return nil, bad
	}
	b = b[1:]
	number := func() (int, bool) {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) { // each thing that is counted has a byte at least, or is that many bytes
			return 0, false
		}
		b = b[used:]
		return int(n), true
	}
	get := func() (string, bool) {
		n, ok := number()
		if !ok {
			return "", false
		}
		s := string(b[:n])
		b = b[n:]
		return s, true
	}
	keys, ok := number()
	if !ok {
		return nil, bad
	}
	h := make(nats.Header, keys)
	for range keys {
		k, ok := get()
		if !ok {
			return nil, bad
		}
		n, ok := number()
		if !ok {
			return nil, bad
		}
		h[k] = make([]string, 0, n)
		for range n {
			v, ok := get()
			if !ok {
				return nil, bad
			}
			h[k] = append(h[k], v)
		}
	}
	if len(b) > 0 {
		return nil, bad
	}
	if keys == 0 {
		return nil, nil
	}
	return h, nil
}
