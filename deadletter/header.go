package deadletter

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
)

// The headers of a letter. Whatever else begins with "Ackfloor-" is the publisher's and is carried.
const (
	prefixOwn     = "Ackfloor-"
	hdrSubject    = "Ackfloor-Subject"
	hdrStream     = "Ackfloor-Stream"
	hdrConsumer   = "Ackfloor-Consumer"
	hdrSequence   = "Ackfloor-Sequence"
	hdrPublished  = "Ackfloor-Published"
	hdrDeliveries = "Ackfloor-Deliveries"
	hdrAttempts   = "Ackfloor-Attempts"
	hdrReason     = "Ackfloor-Reason"
	hdrError      = "Ackfloor-Error"
	hdrFirst      = "Ackfloor-First-Failed"
	hdrLast       = "Ackfloor-Last-Failed"
	hdrHost       = "Ackfloor-Host"
	hdrVersion    = "Ackfloor-Version"
	hdrReplays    = "Ackfloor-Replays"
	hdrReplayOf   = "Ackfloor-Replay-Of"
	hdrTail       = "Ackfloor-Tail"    // in a letter: the subject of the rest, the payload's length, the length of both parts
	hdrTailOf     = "Ackfloor-Tail-Of" // in a rest: the subject of its letter
	hdrCarried    = "Ackfloor-Carried"
)

// acts tells whether a header does something when it is published or read again, rather than only be there: "Nats-*" steers the server
// (Nats-Rollup purges, Nats-TTL expires, Nats-Msg-Id drops, Nats-Expected-* refuses for ever), traceparent makes it trace, and a client takes an
// empty message with Status for an answer of the server. In any case of the letters: the server and clients differ in how they compare.
func acts(key string) bool {
	k := strings.ToLower(key)
	return strings.HasPrefix(k, "nats-") || strings.HasPrefix(k, "ackfloor-") || k == "traceparent" || k == "tracestate" || k == "status" || k == "description"
}

// token tells whether a key can be published at all: an RFC 7230 token, as nats.go checks it.
func token(key string) bool {
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c > '~' || strings.IndexByte("\"()/,:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return key != ""
}

// kept tells whether a value is the same after it was published: nats.go trims it and makes blanks of line ends.
func kept(v string) bool {
	return !strings.ContainsAny(v, "\r\n") && strings.Trim(v, " \t") == v
}

// split divides a publisher's headers into those that can stay as they are and the others, which come back as the value of hdrCarried.
func split(h nats.Header) (plain nats.Header, carried string) {
	plain = make(nats.Header, len(h)+20)
	var others []string
	for k, vs := range h {
		if token(k) && !acts(k) && len(vs) > 0 && !slices.ContainsFunc(vs, func(v string) bool { return !kept(v) }) {
			plain[k] = vs
		} else {
			others = append(others, k)
		}
	}
	if len(others) == 0 {
		return plain, ""
	}
	slices.Sort(others)
	entries := make([][]text, len(others))
	for i, k := range others {
		entries[i] = []text{text(k)}
		for _, v := range h[k] {
			entries[i] = append(entries[i], text(v))
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(entries) // of strings: can't fail
	return plain, strings.TrimSuffix(b.String(), "\n")
}

// join is the inverse of split: the publisher's headers out of those of a stored message. What acts is not the publisher's: it is the
// server's, or was put there to publish the letter.
func join(h nats.Header) (nats.Header, error) {
	out := make(nats.Header, len(h))
	for k, vs := range h {
		if !acts(k) {
			out[k] = vs
		}
	}
	if vs := h[hdrCarried]; len(vs) > 0 {
		var entries [][]text
		if err := json.Unmarshal([]byte(vs[0]), &entries); err != nil {
			return nil, fmt.Errorf("deadletter: header %s can't be read: %w", hdrCarried, err)
		}
		for _, e := range entries {
			if len(e) == 0 {
				continue
			}
			values := make([]string, 0, len(e)-1)
			for _, v := range e[1:] {
				values = append(values, string(v))
			}
			out[string(e[0])] = values
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

// text is a string in JSON; one that is not UTF-8 is {"base64":"…"}, since JSON can't hold it.
type text string

// MarshalJSON keeps every byte.
func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(string(t))
		return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(t))})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(t))
	}
	var odd struct {
		Base64 []byte `json:"base64"`
	}
	if err := json.Unmarshal(b, &odd); err != nil {
		return err
	}
	*t = text(odd.Base64)
	return nil
}

// size is the length of a header block on the wire, the line that opens it and the one that closes it included.
func size(h nats.Header) int {
	n := len("NATS/1.0\r\n\r\n")
	for k, vs := range h {
		for _, v := range vs {
			n += len(k) + len(v) + len(": \r\n")
		}
	}
	return n
}

// clone copies the map and the lists of values, not the strings.
func clone(h nats.Header) nats.Header {
	out := maps.Clone(h)
	for k, vs := range out {
		out[k] = slices.Clone(vs)
	}
	return out
}

// limits of what is put into a letter's own headers, in bytes.
const (
	maxError = 1024
	maxWord  = 256
)

// clean makes a header's value of any text: valid UTF-8, no control characters, at most limit bytes, no blanks at its ends.
func clean(s string, limit int) string {
	if len(s) > 4*limit {
		s = s[:4*limit] // what follows can't be reached: a rune shrinks to a third at most
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case r < ' ' || (r >= 0x7f && r < 0xa0) || r == utf8.RuneError:
			return '?'
		case r == 0x2028 || r == 0x2029 || (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069):
			return '?' // separates lines or turns the direction of what a terminal shows
		}
		return r
	}, s)
	if len(s) > limit {
		const more = "…"
		s = s[:limit-len(more)]
		for len(s) > 0 && !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
		s += more
	}
	return strings.TrimSpace(s)
}
