package main

import (
	"bytes"
	"context"
	"io"
	"math"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/bench/internal/figures"
	"github.com/ackfloor/ackfloor/testutil/fault"
)

func TestPointsOfCurves(t *testing.T) {
	if got := upTo(1, 4, 256); !slices.Equal(got, []int{1, 4, 16, 64, 256}) {
		t.Errorf("up to a power: %v", got)
	}
	if got := upTo(1, 2, 6); !slices.Equal(got, []int{1, 2, 4, 6}) {
		t.Errorf("up to what is none: %v", got)
	}
	if got := points(options{ends: true}, []int{1, 2, 3}); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("the ends: %v", got)
	}
	if got := points(options{}, []int{1, 2, 3}); len(got) != 3 {
		t.Errorf("all: %v", got)
	}
}

// TestWhatLimits: the word in the last column follows from the figures in the others.
func TestWhatLimits(t *testing.T) {
	cores := time.Duration(runtime.NumCPU())
	of := func(s shared) shared {
		s.n, s.took = 1000, time.Second
		if s.reports == nil {
			s.reports = []report{{}}
		}
		return s
	}
	busy := func(slots int) []report { return []report{{Busy: time.Duration(slots) * 9 * time.Second / 10}} }
	for want, s := range map[string]shared{
		"handlers: slots / their time":                   of(shared{slots: 16, pending: 1000, reports: busy(16)}),
		"max_ack_pending":                                of(shared{slots: 64, pending: 16, reports: busy(16)}),
		"CPU, most of it the server's":                   of(shared{cpu: cores * 4 * time.Second / 10, server: work{CPU: cores * 6 * time.Second / 10}, slots: 16, pending: 1000}),
		"CPU, most of it the workers'":                   of(shared{cpu: cores * 6 * time.Second / 10, server: work{CPU: cores * 4 * time.Second / 10}, slots: 16, pending: 1000}),
		"waiting: round trips, timers, files":            of(shared{slots: 16, pending: 1000}),
		"the server: one core is busy with one consumer": of(shared{server: work{CPU: 81 * time.Second / 100}, slots: 16, pending: 1000}),
		"the worker: one core is busy reading":           of(shared{cpu: 81 * time.Second / 100, slots: 16, pending: 1000}),
	} {
		if runtime.NumCPU() == 1 && want[:3] == "the" { // then it is the CPU
			continue
		}
		if got := s.limit(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestDelayed: bytes arrive whole and in order, and not before their time; many under way at once don't take longer.
func TestDelayed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // an echo
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.Copy(c, c)
		_ = c.Close()
	}()
	const trip = 100 * time.Millisecond
	d, err := startDelayed(l.Addr().String(), trip)
	if err != nil {
		t.Fatal(err)
	}
	defer d.stop()
	c, err := net.Dial("tcp", d.l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sent := bytes.Repeat([]byte("0123456789"), 5000)
	began := time.Now()
	go func() {
		for part := range slices.Chunk(sent, 1000) {
			if _, err := c.Write(part); err != nil {
				return
			}
		}
	}()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < trip || took > 20*trip {
		t.Errorf("50 parcels took %v for a round trip of %v", took, trip)
	}
	if !bytes.Equal(got, sent) {
		t.Error("other bytes came back")
	}
}

// TestTally: what was never handled is lost, what was handled a second time is handled again, and what failed was not handled.
func TestTally(t *testing.T) {
	j, err := fault.OpenJournal(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	fails := false
	h := j.Wrap(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
		if fails {
			return io.ErrUnexpectedEOF
		}
		return nil
	}))
	handle := func(n uint64) { _ = h.Handle(context.Background(), &ackfloor.Message{Stream: "S", Sequence: n}) }
	for _, n := range []uint64{0, 1, 1, 1, 3} {
		handle(n)
	}
	fails = true
	handle(2)
	if got, err := tallied(j, 5); err != nil || got != (tally{lost: 2, again: 2}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := tallied(j, 2); err == nil {
		t.Error("a message that is none of them was counted")
	}
}

// TestCommandLine: what makes the figures again, without what is of this machine.
func TestCommandLine(t *testing.T) {
	opt := options{args: []string{"-mode", "growth,held", "-json", "/tmp/x", "-lasting", "1s", "--dir=/tmp/y", "-server", "/tmp/z", "-ends", "-against", "/tmp/before"}}
	if got, want := command(opt, "held"), "go run ./bench -mode held -lasting 1s -ends -against before"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestFiguresAreKept: what a table prints is kept as data, and what is no number is in no chart.
func TestFiguresAreKept(t *testing.T) {
	tab := newTable(io.Discard)
	tab.title("First: %d", 1)
	tab.row("", "a", "b")
	tab.row("x", "1", "2")
	tab.flush()
	tab.note("a note")
	tab.aim("more", 2, atLeast, 3)
	tab.aim("not measured", math.NaN(), atLeast, 3)
	line := figures.Line{Name: "empty"}
	line.Add(1, math.NaN())
	tab.chart(figures.Chart{Name: "none", Lines: []figures.Line{line}})
	tab.chart(figures.Chart{Name: "one", Bars: []figures.Bar{{Name: "x", Y: 1}, {Name: "y", Y: math.Inf(1)}}})
	dir := t.TempDir()
	if err := figures.Write(dir, figures.Result{Mode: "m", Tables: tab.kept}); err != nil {
		t.Fatal(err)
	}
	results, err := figures.Read(dir, nil)
	if err != nil || len(results) != 1 || len(results[0].Tables) != 1 {
		t.Fatalf("%v, %v", results, err)
	}
	got := results[0].Tables[0]
	if got.Title != "First: 1" || !slices.Equal(got.Header, []string{"", "a", "b"}) || len(got.Rows) != 1 || !slices.Equal(got.Notes, []string{"a note"}) {
		t.Errorf("the table is %+v", got)
	}
	if len(got.Aims) != 1 || got.Aims[0].Met || len(got.Charts) != 1 || len(got.Charts[0].Bars) != 1 {
		t.Errorf("aims %+v, charts %+v", got.Aims, got.Charts)
	}
}
