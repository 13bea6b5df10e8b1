package main

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
)

// TestLeafNodes: a worker at a leaf node gets the hub's messages there, and those of a copy that its own server keeps.
func TestLeafNodes(t *testing.T) {
	opt := options{server: testutil.ServerBinary(t), dir: t.TempDir(), lasting: 20 * time.Millisecond, log: io.Discard}
	for _, s := range farSites[1:3] {
		f, err := s.measure(context.Background(), opt, "ackfloor")
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if f.handled() != f.n || len(f.latency.Latencies) == 0 {
			t.Errorf("%s: %d messages of %d, %d latencies", s.name, f.handled(), f.n, len(f.latency.Latencies))
		}
	}
}
