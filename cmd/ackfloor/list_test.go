package main

import "testing"

// The column ERROR begins with what went wrong.
func TestCause(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"no stock":           "no stock",
		"ackfloor: no stock": "no stock",
		`ackfloor: the payload of "events.order_placed" (12 bytes) can't be decoded: unexpected end of JSON input`: "can't be decoded: unexpected end of JSON input",
		"inventory: ackfloor: no stock": "inventory: ackfloor: no stock",
		"worker: ackfloor: x":           "x",
		"ackfloor: ":                    "ackfloor: ",
		"":                              "",
	} {
		if got := cause(text); got != want {
			t.Errorf("%q became %q, not %q", text, got, want)
		}
	}
}
