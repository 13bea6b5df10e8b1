package main

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
)

// TestCommand runs everything once with small numbers: every row is there, every message was counted, every profile written.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	opt, err := parseOptions([]string{"-server", testutil.ServerBinary(t), "-dir", dir, "-n", "2000", "-rounds", "1", "-latency-rounds", "1", "-latency-for", "200ms",
		"-failures-n", "2000", "-failures-rounds", "1", "-handlers", "wait",
		"-memory-n", "3000", "-drains", "1", "-cpuprofile", filepath.Join(dir, "prof"), "-memprofile", filepath.Join(dir, "prof")})
	if err != nil {
		t.Fatal(err)
	}
	opt.log = io.Discard
	var out bytes.Buffer
	if err := bench(context.Background(), opt, &out); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	rows := map[string]int{"consume": 5, "consume-slots": 2, "ackfloor-confirm": 5, "ackfloor-off": 2, "ackfloor-keyed": 4, "ackfloor-send": 5, "ackfloor-batch": 2, "watermill": 4, "watermill-async": 2, "doubleack": 2,
		"wait-clean": 2, "wait-failing": 2}
	counts := map[string]string{"consume": "2000", "consume-slots": "2000", "ackfloor-confirm": "2000", "ackfloor-off": "2000", "ackfloor-keyed": "2000", "ackfloor-send": "2000", "ackfloor-batch": "2000", "watermill": "200", "watermill-async": "1000", "doubleack": "200",
		"wait-clean": "2000", "wait-failing": "1978"}
	got := map[string]int{}
	for line := range strings.Lines(out.String()) {
		f := strings.Fields(line)
		if len(f) < 4 || rows[f[0]] == 0 {
			continue
		}
		got[f[0]]++
		if got[f[0]] == 1 && f[1] != counts[f[0]] {
			t.Errorf("%s handled %s messages, want %s", f[0], f[1], counts[f[0]])
		}
	}
	for name, want := range rows {
		if got[name] != want {
			t.Errorf("%s has %d rows, want %d", name, got[name], want)
		}
	}
	if aims := strings.Count(out.String(), "(aim "); aims != 23 {
		t.Errorf("%d aims, want 23", aims)
	}
	left, err := filepath.Glob(filepath.Join(dir, "ackfloor-bench-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	for _, name := range []string{"throughput-ackfloor-confirm-1.cpu.prof", "failures-wait-failing-1.cpu.prof", "latency-consume-1.mem.prof", "memory-ackfloor-send-1.cpu.prof"} {
		if info, err := os.Stat(filepath.Join(dir, "prof", name)); err != nil || info.Size() == 0 {
			t.Errorf("profile %s: %v", name, err)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, args := range [][]string{{"-mode", "speed"}, {"-only", "nobody"}, {"-n", "0"}, {"latency"}, {"-rounds", "x"}, {"-handlers", "sleep"}, {"-failures-n", "0"},
		{"-schedules", "none"}, {"-workers", "nobody"}, {"-seeds", "x"}, {"-faults-n", "0"}, {"-lasting", "0s"}} {
		if _, err := parseOptions(args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// TestChildEndsWithParent: a contestant whose parent is gone ends, whatever it does.
func TestChildEndsWithParent(t *testing.T) {
	in, parent := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- childMain([]string{"-name", "consume"}, in, io.Discard) }()
	parent.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it ended without an error")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on")
	}
}

func TestFigures(t *testing.T) {
	if m := median([]float64{5, 1, 3}); m != 3 {
		t.Errorf("median of three: %v", m)
	}
	if m := median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median of four: %v", m)
	}
	if !math.IsNaN(median(nil)) {
		t.Error("the median of nothing is a number")
	}
	first := time.Now()
	at := func(seconds int) run {
		return run{report: report{First: first}, settled: first.Add(time.Duration(seconds) * time.Second), n: 100}
	}
	// 100/1 against 100/2, 100/4 against 100/2, 100/2 against 100/2: ratios 2, 0.5, 1
	if r := ratio([]run{at(1), at(4), at(2)}, []run{at(2), at(2), at(2)}, run.rate); r != 1 {
		t.Errorf("ratio of rounds: %v", r)
	}
	l := make([]time.Duration, 200)
	for i := range l {
		l[i] = time.Duration(i)
	}
	r := run{report: report{Latencies: l}}
	if r.percentile(50) != 100 || r.percentile(99) != 198 || r.percentile(100) != 199 {
		t.Errorf("percentiles: %v %v %v", r.percentile(50), r.percentile(99), r.percentile(100))
	}
}
