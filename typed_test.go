package ackfloor_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/ackfloor/ackfloor"
)

type order struct {
	ID    string `json:"id"`
	Count int    `json:"count"`
}

// Seven payloads: two handler calls, five decode errors.
func TestJSON(t *testing.T) {
	garbage := make([]byte, 1<<20)
	rand.New(rand.NewSource(1)).Read(garbage)
	var got []order
	h := ackfloor.JSON(func(_ context.Context, o order, m *ackfloor.Message) error {
		if m.Subject != "orders.new" {
			t.Errorf("the message is %+v", m)
		}
		got = append(got, o)
		return nil
	})
	for _, tc := range []struct {
		name   string
		data   []byte
		reason string // "" means that it is valid
	}{
		{"valid", []byte(`{"id":"a","count":1,"unknown":true}`), ""},
		{"{", []byte("{"), "unexpected end"},
		{"empty", nil, "unexpected end"},
		{"invalid UTF-8 in a string", []byte("{\"id\":\"a\xffb\"}"), "UTF-8"},
		{"invalid UTF-8, a cut rune", []byte("{\"id\":\"\xe2\x82\"}"), "UTF-8"},
		{"wrong type", []byte(`{"id":"a","count":"one"}`), "count"},
		{"1 MB of garbage", garbage, "UTF-8"},
		{"1 MB of garbage that is text", bytes.Repeat([]byte("garbage "), 1<<17), "invalid character"},
		{"two values", []byte(`{} {}`), "after top-level value"},
		{"valid, beyond ASCII", []byte(`{"id":"€�","count":2}`), ""},
	} {
		before := len(got)
		err := h.Handle(t.Context(), &ackfloor.Message{Subject: "orders.new", Data: tc.data})
		if called := len(got) > before; called != (tc.reason == "") {
			t.Errorf("%s: called %v", tc.name, called)
		}
		if tc.reason == "" {
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		if _, ok := errors.AsType[*ackfloor.PermanentError](err); !ok {
			t.Errorf("%s: %v is not Permanent", tc.name, err)
		}
		decode, ok := errors.AsType[*ackfloor.DecodeError](err)
		if !ok || decode.Subject != "orders.new" || decode.Size != len(tc.data) {
			t.Errorf("%s: %#v is not its DecodeError", tc.name, err)
		}
		if !strings.HasPrefix(err.Error(), "ackfloor: ") || !strings.Contains(err.Error(), tc.reason) || len(err.Error()) > 300 {
			t.Errorf("%s: %.400q; want a short text with %q", tc.name, err, tc.reason)
		}
	}
	if want := []order{{"a", 1}, {"€\uFFFD", 2}}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("handled %v, want %v", got, want)
	}
}

func TestJSONUnwrapsToTheDecoder(t *testing.T) {
	h := ackfloor.JSON(func(context.Context, order, *ackfloor.Message) error { return nil })
	err := h.Handle(t.Context(), &ackfloor.Message{Data: []byte(`{"count":"one"}`)})
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok || wrong.Field != "count" {
		t.Errorf("%v does not hold encoding/json's error", err)
	}
}

// Every call decodes into a value of its own: nothing of one message is left in the next.
func TestJSONStartsFromZero(t *testing.T) {
	var got []order
	h := ackfloor.JSON(func(_ context.Context, o order, _ *ackfloor.Message) error {
		got = append(got, o)
		return nil
	})
	for _, data := range []string{`{"id":"a","count":9}`, `{"id":"b"}`, `null`} {
		if err := h.Handle(t.Context(), &ackfloor.Message{Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []order{{"a", 9}, {"b", 0}, {}}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTyped(t *testing.T) {
	decode := func(data []byte, v *uint32) error {
		if len(data) != 4 {
			return errors.New("not 4 bytes")
		}
		*v = binary.BigEndian.Uint32(data)
		return nil
	}
	h := ackfloor.Typed(decode, func(_ context.Context, v uint32, _ *ackfloor.Message) error {
		return fmt.Errorf("got %d", v)
	})
	// Bytes that are no UTF-8 are no fault here, and fn's answer comes back as it is.
	if err := h.Handle(t.Context(), &ackfloor.Message{Data: []byte{0, 0, 0, 0xff}}); err == nil || err.Error() != "got 255" {
		t.Errorf("got %v, want fn's error unchanged", err)
	}
	err := h.Handle(t.Context(), &ackfloor.Message{Data: []byte{1}})
	if _, ok := errors.AsType[*ackfloor.PermanentError](err); !ok || !strings.Contains(err.Error(), "not 4 bytes") {
		t.Errorf("got %v, want a permanent error with the decoder's text", err)
	}
}
