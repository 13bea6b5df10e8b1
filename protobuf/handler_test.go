package protobuf_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand"
	"strings"
	"testing"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/protobuf"
	"github.com/ackfloor/ackfloor/protobuf/example/orderpb"
	"github.com/ackfloor/ackfloor/testutil"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
)

var order = &orderpb.Order{OrderId: "2002", Lines: []*orderpb.Line{{Sku: "teapot", Quantity: 12}}, Signature: []byte{0, 0xff}}

func binary(t testing.TB, v proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func text(t testing.TB, v proto.Message) []byte {
	t.Helper()
	b, err := protojson.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// undecodable checks that an answer is what a payload gets that can't be decoded.
func undecodable(t testing.TB, err error, m *ackfloor.Message, reason string) {
	t.Helper()
	if _, ok := errors.AsType[*ackfloor.PermanentError](err); !ok {
		t.Errorf("%v is not Permanent", err)
	}
	decode, ok := errors.AsType[*ackfloor.DecodeError](err)
	if !ok || decode.Subject != m.Subject || decode.Size != len(m.Data) {
		t.Fatalf("%#v is not its DecodeError", err)
	}
	if !strings.HasPrefix(err.Error(), "ackfloor: ") || !strings.Contains(err.Error(), reason) || len(err.Error()) > 400 {
		t.Errorf("%.500q; want a short text with %q", err, reason)
	}
}

// What is decoded, by content type and payload, and what is not.
func TestHandler(t *testing.T) {
	garbage := make([]byte, 1<<20)
	rand.New(rand.NewSource(1)).Read(garbage)
	wire, json := binary(t, order), text(t, order)
	const notOne = "content type"
	for _, tc := range []struct {
		name, header, value string
		data                []byte
		reason              string // "" means that it is handled
	}{
		{"no header", "", "", wire, ""},
		{"an empty header", "Content-Type", "", wire, ""},
		{"binary", "Content-Type", "application/protobuf", wire, ""},
		{"binary, x-", "Content-Type", "application/x-protobuf", wire, ""},
		{"binary, Google's", "Content-Type", "application/vnd.google.protobuf", wire, ""},
		{"bytes", "Content-Type", "application/octet-stream", wire, ""},
		{"lower case, with a parameter", "content-type", "application/x-protobuf; proto=ackfloor.example.Order", wire, ""},
		{"upper case", "CONTENT-TYPE", " APPLICATION/PROTOBUF ", wire, ""},
		{"JSON", "Content-Type", "application/json", json, ""},
		{"JSON with a charset", "content-type", "Application/JSON; charset=utf-8", json, ""},
		{"JSON of Protocol Buffers", "Content-Type", "application/protobuf+json", json, ""},
		{"JSON of Protocol Buffers, x-", "Content-Type", "application/x-protobuf+json", json, ""},
		{"JSON, names as in the schema", "Content-Type", "application/json",
			[]byte(`{"order_id":"2002","lines":[{"sku":"teapot","quantity":"12"}],"signature":"AP8","new":{}}`), ""},

		{"text", "Content-Type", "text/plain", wire, notOne},
		{"an envelope", "content-type", "application/cloudevents+json", json, notOne},
		{"a long content type", "Content-Type", strings.Repeat("€", 10000), wire, notOne},
		{"JSON without a header", "", "", json, "cannot parse"},
		{"binary as JSON", "Content-Type", "application/json", wire, "proto:"},
		{"cut", "", "", wire[:len(wire)-1], "cannot parse"},
		{"1 MB of garbage", "", "", garbage, "cannot parse"},
		{"1 MB of garbage as JSON", "Content-Type", "application/json", garbage, "syntax error"},
		{"1 MB that JSON repeats", "Content-Type", "application/json", []byte(`{"lines":[{"quantity":"` + strings.Repeat("€", 1<<18) + `"}]}`), "quantity"},
		{"a string that is not UTF-8", "", "", []byte("\x0a\x02a\xff"), "UTF-8"},
		{"the same in JSON", "Content-Type", "application/json", []byte("{\"orderId\":\"a\xff\"}"), "UTF-8"},
		{"empty JSON", "Content-Type", "application/json", nil, "unexpected token"},
		{"two values", "Content-Type", "application/json", []byte("{}{}"), "unexpected token"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got *orderpb.Order
			h := protobuf.Handler(func(_ context.Context, o *orderpb.Order, m *ackfloor.Message) error {
				got = o
				return nil
			})
			m := testutil.Message("orders.new", tc.data)
			if tc.header != "" {
				m = testutil.Message("orders.new", tc.data, testutil.Header(tc.header, tc.value))
			}
			err := h.Handle(t.Context(), m)
			switch {
			case tc.reason == "" && err != nil:
				t.Error(err)
			case tc.reason == "" && !proto.Equal(got, order):
				t.Errorf("handled %v, want %v", got, order)
			case tc.reason != "":
				undecodable(t, err, m, tc.reason)
				if got != nil {
					t.Errorf("it was called with %v", got)
				}
			}
		})
	}
}

// An empty payload is a message whose fields have their defaults, and every call has a message of its own.
func TestEmptyPayloadIsAMessage(t *testing.T) {
	var got []*orderpb.Order
	h := protobuf.Handler(func(_ context.Context, o *orderpb.Order, _ *ackfloor.Message) error {
		got = append(got, o)
		return nil
	})
	for _, data := range [][]byte{binary(t, order), nil, {}} {
		if err := h.Handle(t.Context(), testutil.Message("orders.new", data)); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != 3 || !proto.Equal(got[0], order) || !proto.Equal(got[1], &orderpb.Order{}) || !proto.Equal(got[2], &orderpb.Order{}) {
		t.Errorf("got %v", got)
	}
}

// A handler may keep the value: it shares no bytes with the message.
func TestValueIsItsOwn(t *testing.T) {
	var got *orderpb.Order
	h := protobuf.Handler(func(_ context.Context, o *orderpb.Order, _ *ackfloor.Message) error {
		got = o
		return nil
	})
	m := testutil.Message("orders.new", binary(t, order))
	if err := h.Handle(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	for i := range m.Data {
		m.Data[i] = 'x'
	}
	if !proto.Equal(got, order) {
		t.Errorf("it changed with the payload: %v", got)
	}
}

// What a newer publisher adds is there again when the value is encoded.
func TestUnknownFieldsAreKept(t *testing.T) {
	data := append(binary(t, &orderpb.Line{Sku: "teapot"}), 0x9a, 0x01, 0x03, 'n', 'e', 'w') // field 19, a string
	h := protobuf.Handler(func(_ context.Context, l *orderpb.Line, _ *ackfloor.Message) error {
		if l.Sku != "teapot" || !bytes.Contains(binary(t, l), []byte("new")) {
			t.Errorf("%v does not hold the unknown field", l)
		}
		return nil
	})
	if err := h.Handle(t.Context(), testutil.Message("lines", data)); err != nil {
		t.Fatal(err)
	}
}

func TestRequiredFields(t *testing.T) {
	h := protobuf.Handler(func(context.Context, *descriptorpb.UninterpretedOption_NamePart, *ackfloor.Message) error {
		t.Error("called")
		return nil
	})
	for _, m := range []*ackfloor.Message{
		testutil.Message("names", nil),
		testutil.Message("names", "{}", testutil.Header("Content-Type", "application/json")),
	} {
		undecodable(t, h.Handle(t.Context(), m), m, "required")
	}
}

// An encoding that is set holds whatever the header says.
func TestEncodingGoesBeforeTheHeader(t *testing.T) {
	called := 0
	fn := func(_ context.Context, o *orderpb.Order, _ *ackfloor.Message) error {
		if called++; !proto.Equal(o, order) {
			t.Errorf("got %v", o)
		}
		return nil
	}
	for _, header := range []string{"", "text/plain", "application/json", "application/protobuf"} {
		for e, data := range map[protobuf.Encoding][]byte{protobuf.Binary: binary(t, order), protobuf.JSON: text(t, order)} {
			h := protobuf.HandlerWith(protobuf.Options{Encoding: e}, fn)
			if err := h.Handle(t.Context(), testutil.Message("orders.new", data, testutil.Header("Content-Type", header))); err != nil {
				t.Error(err)
			}
		}
	}
	if called != 8 {
		t.Errorf("called %d times", called)
	}
}

// The types inside of an Any are those of the Resolver.
func TestResolver(t *testing.T) {
	inside, err := anypb.New(order)
	if err != nil {
		t.Fatal(err)
	}
	m := testutil.Message("any", text(t, inside), testutil.Header("Content-Type", "application/json"))
	fn := func(_ context.Context, a *anypb.Any, _ *ackfloor.Message) error {
		if !proto.Equal(a, inside) {
			t.Errorf("got %v", a)
		}
		return nil
	}
	if err := protobuf.Handler(fn).Handle(t.Context(), m); err != nil {
		t.Errorf("with the types of the program: %v", err)
	}
	undecodable(t, protobuf.HandlerWith(protobuf.Options{Resolver: new(protoregistry.Types)}, fn).Handle(t.Context(), m), m, "ackfloor.example.Order")
}

// The function's answer comes back as it is, and the decoder's error can be found.
func TestErrors(t *testing.T) {
	sold := errors.New("sold out")
	h := protobuf.Handler(func(context.Context, *orderpb.Order, *ackfloor.Message) error { return sold })
	if err := h.Handle(t.Context(), testutil.Message("orders.new", nil)); err != sold {
		t.Errorf("got %v", err)
	}
	if err := h.Handle(t.Context(), testutil.Message("orders.new", "{")); !errors.Is(err, proto.Error) {
		t.Errorf("%v does not hold the decoder's error", err)
	}
}

func TestDynamicMessageIsRefused(t *testing.T) {
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, "ackfloor.Typed") {
			t.Errorf("it panicked with %q", p)
		}
	}()
	protobuf.Handler(func(context.Context, *dynamicpb.Message, *ackfloor.Message) error { return nil })
	t.Error("it was taken")
}

func TestNewMsg(t *testing.T) {
	m, err := protobuf.NewMsg("orders.new", order)
	if err != nil || m.Subject != "orders.new" || m.Header.Get("Content-Type") != "application/protobuf" || !bytes.Equal(m.Data, binary(t, order)) {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := protobuf.NewMsg("orders.new", &orderpb.Order{OrderId: "\xff"}); err == nil || !strings.HasPrefix(err.Error(), `protobuf: encode for "orders.new": `) {
		t.Errorf("a string that is not UTF-8: %v", err)
	}
}

// Whatever arrives is either handled or given up with a short reason, and what is handled is what the decoders say.
func FuzzHandler(f *testing.F) {
	wire, json := binary(f, order), text(f, order)
	for _, media := range []string{"", "application/protobuf", "application/json", "application/json;", "text/plain", "\xff"} {
		for _, data := range [][]byte{nil, wire, wire[:5], json, []byte("{"), []byte(`{"orderId":"\ud800"}`), []byte("\x0a\x02a\xff"), {0x0b, 0x0b}} {
			f.Add(media, data)
		}
	}
	f.Fuzz(func(t *testing.T, media string, data []byte) {
		var got *orderpb.Order
		h := protobuf.Handler(func(_ context.Context, o *orderpb.Order, _ *ackfloor.Message) error {
			got = o
			return nil
		})
		m := testutil.Message("orders.new", data, testutil.Header("Content-Type", media))
		if err := h.Handle(t.Context(), m); err != nil {
			undecodable(t, err, m, "can't be decoded")
			if got != nil {
				t.Error("called, and given up")
			}
			return
		}
		want := new(orderpb.Order)
		if proto.Unmarshal(data, want) != nil || !proto.Equal(got, want) {
			want.Reset()
			if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, want); err != nil || !proto.Equal(got, want) {
				t.Errorf("%q was handled as %v", data, got)
			}
		}
		again := new(orderpb.Order)
		if err := proto.Unmarshal(binary(t, got), again); err != nil || !proto.Equal(got, again) {
			t.Errorf("%v is another one after encoding: %v", got, err)
		}
	})
}
