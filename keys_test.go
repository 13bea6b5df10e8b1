package ackfloor_test

import (
	"testing"

	"github.com/ackfloor/ackfloor"
	"github.com/nats-io/nats.go"
)

func TestKeys(t *testing.T) {
	m := &ackfloor.Message{Subject: "orders.eu.42", Header: nats.Header{"Customer": {"a", "b"}, "Empty": {}}}
	for i, want := range map[int]string{1: "orders", 2: "eu", 3: "42", 4: "", 0: "", -1: "42", -3: "orders", -4: ""} {
		if got := ackfloor.KeyBySubject(i)(m); got != want {
			t.Errorf("token %d is %q, want %q", i, got, want)
		}
	}
	for name, want := range map[string]string{"Customer": "a", "customer": "", "Empty": "", "None": ""} {
		if got := ackfloor.KeyByHeader(name)(m); got != want {
			t.Errorf("header %q is %q, want %q", name, got, want)
		}
	}
	if ackfloor.KeyByHeader("x")(&ackfloor.Message{}) != "" {
		t.Error("a message without headers has a key")
	}
}
