package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/ackfloor/ackfloor/testutil"
)

// The mode limit with small numbers: every row of both tables is there, and every row has done something.
func TestLimit(t *testing.T) {
	opt, err := parseOptions([]string{"-server", testutil.ServerBinary(t), "-dir", t.TempDir(), "-mode", "limit", "-limit-for", "1s", "-limit-n", "1000", "-limit-rounds", "1"})
	if err != nil {
		t.Fatal(err)
	}
	opt.log = io.Discard
	var out bytes.Buffer
	if err := bench(context.Background(), opt, &out); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	for _, row := range gatedRows() {
		if n := strings.Count(out.String(), " "+row.name+"  "); n != len(servicePhases) {
			t.Errorf("%q has %d rows", row.name, n)
		}
	}
	for _, row := range gateRows() {
		if !strings.Contains(out.String(), row.name+"  ") {
			t.Errorf("%q has no row", row.name)
		}
	}
	if !strings.Contains(out.String(), "second by second: [") {
		t.Error("the limits are missing")
	}
}
