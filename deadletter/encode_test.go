package deadletter

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
)

func reflectString(v any) string {
	if b, ok := v.([]byte); ok {
		return fmt.Sprintf("%d bytes %.80q", len(b), b)
	}
	return fmt.Sprintf("%q", fmt.Sprint(v))
}

// odd are headers that would act, block, be changed or be lost when they are published again.
var odd = map[string]nats.Header{
	"none":             nil,
	"plain":            {"A": {"1"}, "Content-Type": {"text/plain; charset=utf-8"}},
	"many values":      {"X": {"b", "a", "", "b"}},
	"empty value":      {"X": {""}},
	"no value":         {"X": {}},
	"case":             {"x-id": {"1"}, "X-Id": {"2"}, "X-ID": {"3"}},
	"rollup":           {"Nats-Rollup": {"all"}},
	"rollup, any case": {"nats-rollup": {"all"}, "NATS-ROLLUP": {"sub"}, "Nats-RollUp": {"all"}},
	"ttl":              {"Nats-TTL": {"1s"}},
	"id":               {"Nats-Msg-Id": {"one"}},
	"expected": {"Nats-Expected-Stream": {"OTHER"}, "Nats-Expected-Last-Sequence": {"9"}, "Nats-Expected-Last-Subject-Sequence": {"7"},
		"Nats-Expected-Last-Msg-Id": {"x"}},
	"schedule":          {"Nats-Schedule": {"@every 1s"}, "Nats-Schedule-Target": {"dlq.ORDERS.inventory.9"}},
	"counter":           {"Nats-Incr": {"+1"}},
	"batch":             {"Nats-Batch-Id": {"b"}, "Nats-Batch-Sequence": {"1"}},
	"answer of the api": {"Nats-Stream": {"X"}, "Nats-Subject": {"y"}, "Nats-Sequence": {"3"}, "Nats-Time-Stamp": {"now"}, "Nats-Num-Pending": {"0"}},
	"marker":            {"Nats-Marker-Reason": {"MaxAge"}},
	"unknown nats":      {"Nats-Of-The-Future": {"1"}},
	"trace":             {"Nats-Trace-Dest": {"trace"}, "Nats-Trace-Only": {"true"}},
	"traceparent":       {"traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, "TraceParent": {"00-x"}, "tracestate": {"a=b"}},
	"status":            {"Status": {"503"}, "Description": {"No Responders"}, "status": {"404"}},
	"own": {"Ackfloor-Subject": {"mine"}, "ackfloor-replay-of": {"1"}, "Ackfloor-Carried": {"[[\"A\",\"b\"]]"}, "Ackfloor-Tail": {"x"},
		"ACKFLOOR-ERROR": {"e"}},
	"blank key":    {"a b": {"1"}, " ": {"2"}, "": {"3"}, "a ": {"4"}},
	"colon":        {"a:b": {"1"}, ":": {"2"}},
	"not ascii":    {"Größe": {"XL"}, "\xff": {"1"}, "鍵": {"値"}},
	"line ends":    {"X": {"a\r\nNats-Rollup: all\r\n\r\nbody"}, "Y": {"\n"}, "Z": {"a\rb"}, "k\r\nNats-Rollup": {"all"}},
	"blanks":       {"X": {" a"}, "Y": {"a "}, "Z": {"\ta\t"}, "W": {" "}, "V": {"a  b"}},
	"bytes":        {"X": {"\xff\xfe"}, "Y": {"\x00\x01"}, "Z": {" \xff "}, "U": {"\u2028\ufffd<&>"}, "A\x00B": {"1"}},
	"quotes":       {`a"b`: {`c"d\`}, "{}": {"{}"}, "[]": {"[]"}},
	"mixed values": {"X": {"fine", " not"}},
}

// wire is what becomes of headers between a publisher and a reader, as nats.go writes and reads them.
func wire(t testing.TB, h nats.Header) nats.Header {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("NATS/1.0\r\n")
	for k, vs := range h {
		if !token(k) {
			t.Fatalf("key %q can't be published", k)
		}
		for _, v := range vs {
			if strings.ContainsAny(v, "\r\n") || strings.Trim(v, " \t\r\n") != v {
				t.Fatalf("value %q of %q would be changed", v, k)
			}
			b.WriteString(k + ": " + v + "\r\n")
		}
	}
	b.WriteString("\r\n")
	if b.Len() != size(h) {
		t.Fatalf("size says %d, it is %d", size(h), b.Len())
	}
	if b.Len() > maxHeader {
		t.Fatalf("%d bytes of headers", b.Len())
	}
	out, err := nats.DecodeHeadersMsg(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// through encodes and decodes a letter, without a server.
func through(t testing.TB, l *Letter, maxPayload int64) *Letter {
	t.Helper()
	p, err := encode(l, maxPayload)
	if errors.Is(err, ErrTooLarge) {
		t.Skip("too large")
	}
	if err != nil {
		t.Fatal(err)
	}
	for k := range p.header {
		if acts(k) && !strings.HasPrefix(k, prefixOwn) {
			t.Fatalf("%q is published again", k)
		}
	}
	if n := int64(size(p.header) + room + len(p.data)); n > maxPayload {
		t.Fatalf("the letter has %d bytes, the limit is %d", n, maxPayload)
	}
	if int64(len(p.rest)+2*room) > maxPayload && len(p.rest) > 0 {
		t.Fatalf("the rest has %d bytes, the limit is %d", len(p.rest), maxPayload)
	}
	out, err := decode(place{kind: letter, stream: l.Stream, consumer: l.Consumer, seq: l.MessageSequence}.subject(), wire(t, p.header), p.data)
	if err != nil {
		t.Fatal(err)
	}
	if out.Incomplete() != (p.restAt != "") {
		t.Fatalf("incomplete: %v, the rest is at %q", out.Incomplete(), p.restAt)
	}
	if out.Incomplete() {
		if out.tail.subject != p.restAt {
			t.Fatalf("the rest is at %q, the letter says %q", p.restAt, out.tail.subject)
		}
		if err := out.attach(p.rest); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestEncode(t *testing.T) {
	for name, h := range odd {
		t.Run(name, func(t *testing.T) {
			for _, limit := range []int64{1 << 20, 4096} { // the second only goes in two parts, for some
				l := sample(7, func(l *Letter) { l.Header = h })
				if limit < 1<<20 {
					l.Data = bytes.Repeat([]byte{0, 255, '\r', '\n'}, 700)
				}
				same(t, through(t, l, limit), l)
			}
		})
	}
}

// What a letter says of itself can't break the letter, whatever an error says.
func TestEncodeCleansWords(t *testing.T) {
	for _, text := range []string{"", "plain", "two\nlines\r\n\tindented", "\x1b[31mred\x1b[0m", "bad \xff utf8", "\u202eturned", strings.Repeat("ä", 5000),
		strings.Repeat("\xff", 5000), strings.Repeat("\ufffd", 5000), " blanks ", strings.Repeat("a", 1023) + "ä", "\x00"} {
		l := through(t, sample(7, func(l *Letter) { l.Error, l.Host, l.Version = text, text, text }), 1<<20)
		for _, s := range []string{l.Error, l.Host, l.Version} {
			if !utf8.ValidString(s) || len(s) > 1024 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x202e }) {
				t.Errorf("%.40q became %.40q, %d bytes", text, s, len(s))
			}
		}
		if len(text) > 3000 && len(l.Error) < 1000 {
			t.Errorf("only %d bytes are left of %.40q", len(l.Error), text)
		}
	}
	if got := clean("inventory: no such item 漢字", maxError); got != "inventory: no such item 漢字" {
		t.Errorf("a plain error became %q", got)
	}
}

// The same message gives the same rest and the same cut, whatever else the letters say: two workers may write it at once.
func TestRestFollowsFromTheMessage(t *testing.T) {
	big := func(l *Letter) { l.Data = bytes.Repeat([]byte("x"), 1<<20); l.Header = odd["own"] }
	a, err := encode(sample(7, big), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	b, err := encode(sample(7, big, func(l *Letter) { l.Host, l.Error, l.Replays, l.ReplayOf = "another host", "", 3, 99 }), 2<<20-5)
	if err != nil {
		t.Fatal(err)
	}
	if b.restAt != "" {
		t.Fatal("twice the room, and still two parts")
	}
	b, err = encode(sample(7, big, func(l *Letter) { l.Host, l.Error, l.Replays, l.ReplayOf = "another host", "", 3, 99 }), 1<<20)
	if err != nil || a.restAt != b.restAt || !bytes.Equal(a.rest, b.rest) || !bytes.Equal(a.data, b.data) {
		t.Fatalf("they differ: %q %q %d %d %v", a.restAt, b.restAt, len(a.rest), len(b.rest), err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good, err := encode(sample(7), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		subject string
		change  func(nats.Header)
	}{
		"no headers":         {"", func(h nats.Header) { clear(h) }},
		"another stream":     {"dlq.OTHER.inventory.7", nil},
		"another consumer":   {"dlq.ORDERS.email.7", nil},
		"another sequence":   {"dlq.ORDERS.inventory.8", nil},
		"a rest":             {"dlq.ORDERS.inventory.7.tail.0", nil},
		"no subject of ours": {"orders.new", nil},
		"bad sequence":       {"", func(h nats.Header) { h.Set(hdrSequence, "-1") }},
		"bad time":           {"", func(h nats.Header) { h.Set(hdrPublished, "yesterday") }},
		"bad carried":        {"", func(h nats.Header) { h.Set(hdrCarried, "[") }},
		"bad tail":           {"", func(h nats.Header) { h.Set(hdrTail, "x") }},
		"another's tail":     {"", func(h nats.Header) { h.Set(hdrTail, "dlq.ORDERS.inventory.8.tail.0 1 2") }},
		"a tail of less":     {"", func(h nats.Header) { h.Set(hdrTail, "dlq.ORDERS.inventory.7.tail.0 5 2") }},
	} {
		h := clone(good.header)
		subject := "dlq.ORDERS.inventory.7"
		if c.change != nil {
			c.change(h)
		}
		if c.subject != "" {
			subject = c.subject
		}
		if l, err := decode(subject, h, nil); err == nil {
			t.Errorf("%s: became %s", name, short(*l))
		}
	}
}

// Packed headers that are cut, or longer than they say, are refused, not misread.
func TestUnpackRefuses(t *testing.T) {
	good := packHeader(odd["many values"])
	if _, err := unpackHeader(good); err != nil {
		t.Fatal(err)
	}
	for n := range good {
		if h, err := unpackHeader(good[:n]); err == nil {
			t.Errorf("%d bytes of %d became %q", n, len(good), h)
		}
	}
	if h, err := unpackHeader(append(good, 0)); err == nil {
		t.Errorf("a byte more, and it became %q", h)
	}
}

func FuzzEncodeDecode(f *testing.F) {
	for _, h := range odd {
		for k, vs := range h {
			v := strings.Join(vs, "\x00")
			f.Add(k, v, "X-Plain", "v", []byte("data"), uint16(4000), "error", int64(1))
		}
	}
	f.Add("k", strings.Repeat(" ", 3000), "k", "", bytes.Repeat([]byte{1}, 3000), uint16(5000), "e", int64(-1))
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 string, data []byte, limit uint16, text string, nanos int64) {
		h := nats.Header{}
		h[k1] = strings.Split(v1, "\x00")
		h[k2] = append(h[k2], strings.Split(v2, "\x00")...)
		l := sample(uint64(limit), func(l *Letter) {
			l.Header, l.Data, l.Error, l.Published = h, data, text, time.Unix(0, nanos)
			l.Replays, l.ReplayOf = int(limit)%3, uint64(limit)%7
		})
		got := through(t, l, int64(limit)+2500)
		l.Error = clean(text, maxError)
		same(t, got, l)
	})
}

func FuzzUnpackHeader(f *testing.F) {
	for _, h := range odd {
		f.Add(packHeader(h))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := unpackHeader(b)
		if err != nil {
			return
		}
		if again, err := unpackHeader(packHeader(h)); err != nil || len(again) != len(h) {
			t.Fatalf("%q: %v, %v", b, again, err)
		}
	})
}
