//go:build unix

package main

import (
	"bytes"
	"regexp"
	"testing"
)

// The measurement counts what it finds, and the service sums up also what came right before its end.
func TestBenchmark(t *testing.T) {
	t.Setenv(asService, "1")
	var out bytes.Buffer
	if err := benchmark(t.Context(), 12_000, "", &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{`published 12000 events`, `12000 events of [12] hours? in \d+ files?; summed up in files/summary.txt`, `stopped: 12000 handled`, `the files: +12000 rows`, `hour is over: [12] files?`} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
