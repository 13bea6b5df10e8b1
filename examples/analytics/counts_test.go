package main

import (
	"errors"
	"maps"
	"testing"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

func TestCount(t *testing.T) {
	t.Parallel()
	c := newCounts()
	h := ackfloor.JSON(c.count)
	for _, m := range []*ackfloor.Message{
		testutil.Message("events.page_loaded", `{"page":"/home","visitor":"v1"}`),
		testutil.Message("events.page_loaded", `{"page":"/home"}`),
		testutil.Message("events.input_changed", `{"field":"email"}`),
	} {
		if err := h.Handle(t.Context(), m); err != nil {
			t.Errorf("%s %s: %v", m.Subject, m.Data, err)
		}
	}
	err := h.Handle(t.Context(), testutil.Message("events.page_loaded", `{}`))
	if _, permanent := errors.AsType[*ackfloor.PermanentError](err); !permanent {
		t.Errorf("an event without a page: got %v, want a permanent error", err)
	}
	want := map[string]int{"events.page_loaded /home": 2, "events.input_changed email": 1}
	if !maps.Equal(c.of, want) {
		t.Errorf("counted %v, want %v", c.of, want)
	}
}
