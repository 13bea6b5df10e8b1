package protobuf

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ackfloor/ackfloor"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Encoding is how a payload is encoded.
type Encoding int

// The encodings.
const (
	ByHeader Encoding = iota // as the header Content-Type says, binary without one
	Binary                   // the wire format, whatever the header says
	JSON                     // the JSON mapping, whatever the header says
)

// Options are what a handler can be told. The zero value is what Handler uses.
type Options struct {
	Encoding Encoding // ByHeader by default
	Resolver Resolver // finds extensions, and the types inside of google.protobuf.Any in JSON; nil: those that are linked into the program
}

// Resolver finds types by their names. *protoregistry.Types is one.
type Resolver interface {
	protoregistry.ExtensionTypeResolver
	protoregistry.MessageTypeResolver
}

// decode decodes the payload of m into v.
func (o Options) decode(m *ackfloor.Message, v proto.Message) error {
	encoding := o.Encoding
	if encoding == ByHeader {
		var err error
		if encoding, err = byHeader(m.Header); err != nil {
			return err
		}
	}
	var err error
	if encoding == JSON {
		err = protojson.UnmarshalOptions{DiscardUnknown: true, Resolver: o.Resolver}.Unmarshal(m.Data, v)
	} else {
		err = proto.UnmarshalOptions{Resolver: o.Resolver}.Unmarshal(m.Data, v)
	}
	if err != nil {
		return &bounded{err}
	}
	return nil
}

const (
	contentType = "Content-Type"
	binaryType  = "application/protobuf"
)

// encodings are the media types, in lower case: what NewMsg writes, and what other publishers do.
var encodings = map[string]Encoding{
	"":                                Binary,
	binaryType:                        Binary,
	"application/x-protobuf":          Binary,
	"application/vnd.google.protobuf": Binary,
	"application/octet-stream":        Binary,
	"application/protobuf+json":       JSON,
	"application/x-protobuf+json":     JSON,
	"application/json":                JSON,
}

// byHeader tells how the header says that the payload is encoded.
func byHeader(h nats.Header) (Encoding, error) {
	value := header(h, contentType)
	media, _, _ := strings.Cut(value, ";")
	media = strings.TrimSpace(media)
	e, ok := encodings[media]
	if !ok {
		e, ok = encodings[strings.ToLower(media)]
	}
	if !ok {
		return 0, &bounded{fmt.Errorf("the content type is %q: it takes %s or application/json", cut(media, 100), binaryType)}
	}
	return e, nil
}

// header finds a header in any case: NATS keeps a name as it was written, and publishers over HTTP or CloudEvents write it in lower case.
func header(h nats.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	for k, values := range h {
		if len(values) > 0 && strings.EqualFold(k, name) {
			return values[0]
		}
	}
	return ""
}

// bounded is a decoder's error whose text is short: protojson repeats what it could not read, which may be the whole payload.
type bounded struct{ error }

func (e *bounded) Error() string { return cut(e.error.Error(), 200) }

// Unwrap returns the decoder's error, with the whole text.
func (e *bounded) Unwrap() error { return e.error }

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}
