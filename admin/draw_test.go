package admin

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/internal/tape"
	"github.com/ackfloor/ackfloor/worker"
)

func cursor(name string, floor, delivered uint64, outstanding int, ahead uint64) tape.Cursor {
	return tape.Cursor{Consumer: name, AckFloor: floor, Delivered: delivered, Outstanding: outstanding, Unprocessed: ahead, Durable: true, Pull: true}
}

func TestWindow(t *testing.T) {
	for _, c := range []struct {
		what        string
		first, last uint64
		floors      []uint64
		lo, hi      uint64
	}{
		{"no message", 0, 0, nil, 0, 0},
		{"emptied", 101, 100, []uint64{100}, 100, 100},
		{"eight", 1, 8, []uint64{0, 8}, 0, 8},
		{"a small stream whose beginning is gone", 95, 100, []uint64{100}, 94, 100},
		{"all processed", 1, 20_000_000, []uint64{20_000_000}, 19_999_936, 20_000_000},
		{"a little behind", 1, 20_000_000, []uint64{20_000_000, 19_999_000}, 19_997_952, 20_000_000},
		{"far behind: all of it", 1, 20_000_000, []uint64{20_000_000, 5}, 0, 20_000_000},
		{"no consumer", 1, 1000, nil, 936, 1000},
		{"the largest numbers", 1<<63 - 10, 1<<64 - 1, []uint64{1<<64 - 1}, 1<<64 - 65, 1<<64 - 1},
		{"the largest span", 1, 1<<64 - 1, []uint64{0}, 0, 1<<64 - 1},
	} {
		x := &tape.Tape{First: c.first, Last: c.last, Messages: c.last - c.first + 1}
		for i, f := range c.floors {
			x.Cursors = append(x.Cursors, cursor(fmt.Sprint(i), f, f, 0, c.last-f))
		}
		if w := windowOf(x); w != (window{c.lo, c.hi}) {
			t.Errorf("%s: %d to %d, want %d to %d", c.what, w.lo, w.hi, c.lo, c.hi)
		}
		_ = draw(x, nil) // whatever the numbers, there is a picture
	}
}

func TestLanes(t *testing.T) {
	x := &tape.Tape{Stream: "EVENTS", First: 1, Last: 8, Messages: 7, Deleted: []uint64{3}, Cursors: []tape.Cursor{
		cursor("analytics", 2, 2, 0, 5), cursor("email", 4, 5, 1, 3), cursor("inventory", 4, 6, 2, 2), cursor("skips", 2, 8, 0, 0), {Consumer: "gone", Error: "not found"}}}
	d := draw(x, map[string][]worker.HeldItem{"inventory": {{Sequence: 5, Running: true, Attempt: 1}, {Sequence: 6, Attempt: 2}, {Sequence: 900}}})
	var got strings.Builder
	for _, l := range d.Lanes {
		fmt.Fprintf(&got, "%s %s: done %s, open %s from %s, head %s, %v, %s\n", l.Class, l.Name, l.Done, l.Open, l.OpenAt, l.Head, l.Marks, l.Note)
	}
	want := `c0 analytics: done 25.000%, open 0% from 25.000%, head 25.000%, [], 5 unprocessed
c1 email: done 50.000%, open 12.500% from 50.000%, head 62.500%, [], 1 outstanding, 3 unprocessed
c2 own inventory: done 50.000%, open 25.000% from 50.000%, head 75.000%, [{50.000% 12.500% running} {62.500% 12.500% again}], 2 outstanding, 2 unprocessed
c3 skips: done 100.000%, open 0% from 25.000%, head 100.000%, [], all processed
c4 gone: done 0%, open 0% from 0%, head 0%, [], not known
`
	if got.String() != want {
		t.Errorf("lanes:\n%swant:\n%s", got.String(), want)
	}
	if len(d.Cells) != 8 || d.Cells[2].Class != "cell gone" || d.Cells[7].Number != "8" || d.Ticks != nil || d.Torn {
		t.Errorf("cells: %+v", d)
	}
}

// Of many consumers the own ones are drawn, and the colours are those of the table.
func TestManyConsumers(t *testing.T) {
	x := &tape.Tape{Stream: "EVENTS", First: 1, Last: 1_000_000, Messages: 1_000_000}
	for i := range 40 {
		x.Cursors = append(x.Cursors, cursor(fmt.Sprintf("c%02d", i), 999_000, 999_000, 0, 1000))
	}
	d := draw(x, map[string][]worker.HeldItem{"c31": nil})
	if len(d.Lanes) != lanesMost || d.More != 40-lanesMost || d.Lanes[0].Name != "c31" || !strings.HasPrefix(d.Lanes[0].Class, colour(x, "c31")) {
		t.Errorf("%d lanes, %d more, the first is %+v", len(d.Lanes), d.More, d.Lanes[0])
	}
	if !d.Torn || d.Window != "the last 2,048 of 1,000,000" || len(d.Cells) != 0 || len(d.Ticks) != 5 {
		t.Errorf("window %q, ticks %+v", d.Window, d.Ticks)
	}
	if !strings.Contains(d.Label, "And 28 consumers more.") {
		t.Errorf("in words: %s", d.Label)
	}
}

func TestSpark(t *testing.T) {
	f := func(x float64) *float64 { return &x }
	s := sparkOf([]*float64{nil, f(0), f(10), nil, f(5), nil}, "Acknowledged", rate)
	if s.Line != "M60.0 38.0 L120.0 3.0 M240.0 20.5 h.01" || s.Now != "–" || s.Most != "10" {
		t.Errorf("%+v", s)
	}
	if s := sparkOf(make([]*float64, 3), "x", rate); s.Line != "" || s.Label != "x: nothing is known yet" {
		t.Errorf("nothing known: %+v", s)
	}
	if s := sparkOf([]*float64{f(0), f(0)}, "x", rate); s.Line != "M0.0 38.0 L300.0 38.0" || s.Now != "0" {
		t.Errorf("all zero: %+v", s)
	}
}

func TestHistory(t *testing.T) {
	h, at := &history{}, time.Now()
	h.add(at, 100, nil)
	h.add(at.Add(2*time.Second), 120, new(7.0))
	h.add(at.Add(4*time.Second), 120, nil)
	s := h.shown()
	n := len(s.AckedPerSecond)
	if n != historyPoints || s.AckedPerSecond[n-3] != nil || *s.AckedPerSecond[n-2] != 10 || *s.AckedPerSecond[n-1] != 0 || *s.Unprocessed[n-2] != 7 || s.Unprocessed[n-1] != nil {
		t.Errorf("%+v", s)
	}
}

func TestStateWords(t *testing.T) {
	ok := runner{State: "working", Ready: true, Alive: true}
	for want, change := range map[string]func(*runner){
		"ok: Working":                             func(*runner) {},
		"bad: Failed: the loop ended":             func(r *runner) { r.Alive, r.Reason = false, "the loop ended" },
		"busy: Draining: 3 still held":            func(r *runner) { r.State, r.Held.Running, r.Held.Waiting = "draining", 2, 1 },
		"off: Ended":                              func(r *runner) { r.State = "ended" },
		"busy: Starting: binding":                 func(r *runner) { r.State, r.Reason = "binding", "binding" },
		"warn: Paused: the shop is closed":        func(r *runner) { r.Paused = "the shop is closed" },
		"warn: Not ready: not connected":          func(r *runner) { r.Ready, r.Reason = false, "not connected" },
		"off: Standing by: another process works": func(r *runner) { r.Standby = true },
	} {
		r := ok
		change(&r)
		if class, words := stateWords(r); class+": "+words != want {
			t.Errorf("%s: %s, want %s", class, words, want)
		}
	}
}

// Every part renders whatever is in it: no template fails on what it is given.
func TestEveryPartRenders(t *testing.T) {
	now := time.Now()
	full := &tape.Tape{Stream: "EVENTS", First: 1, Last: 3, Messages: 3, LastTime: now, Partial: "no right to list", Seen: now, Cursors: []tape.Cursor{
		{Consumer: "a", Filter: []string{"x.>", "y"}, Paused: true}, {Consumer: "b", Error: "timeout"}}}
	many := runner{Stream: "EVENTS", Consumer: "a", Reason: "x", Failures: []failure{{At: now, Then: "retried"}, {Then: "terminated"}}, Drift: []drift{{"ack_wait", "1s", "2s"}},
		Settings: []setting{{"A", "", "u", true}, {"B", "v", "u", false}}, Held: held{Oldest: make([]item, 20), More: 7, Kept: 1, Behind: 1}, History: (&history{}).shown()}
	for name, st := range map[string]*status{
		"nothing": {}, "no tape": {Runners: []runner{{}}, Tapes: []seenTape{{Stream: "EVENTS", Problem: "not asked"}}},
		"everything": {Now: now, Process: thisProcess(), Runners: []runner{many, many, many, many}, Tapes: []seenTape{{Stream: "EVENTS", Tape: full, Problem: "old"}, {Stream: "B", Tape: &tape.Tape{}}}},
	} {
		v := viewOf(st)
		for _, part := range partNames {
			var b bytes.Buffer
			if err := pages.ExecuteTemplate(&b, part, v); err != nil {
				t.Errorf("%s: %s: %v", name, part, err)
			}
		}
	}
}

type fakeConn struct {
	net.Conn
	closed bool
}

func (f *fakeConn) Close() error { f.closed = true; return errors.New("closed") }

// A new connection takes the place of the oldest on which nothing is answered, and where all are being served that of the oldest of them: a probe gets through.
func TestConnLimit(t *testing.T) {
	l := &connLimit{most: 2, open: map[net.Conn]*connUse{}}
	var c [6]*fakeConn
	for i := range c {
		c[i] = &fakeConn{}
	}
	l.changed(c[0], 0)
	l.changed(c[1], 0)
	l.use(c[0], true)
	l.changed(c[2], 0)
	if c[0].closed || !c[1].closed || c[2].closed {
		t.Error("the idle one has not made room")
	}
	l.use(c[2], true)
	l.changed(c[3], 0)
	if !c[0].closed || c[2].closed || c[3].closed || len(l.open) != 2 {
		t.Error("with all busy the oldest has not made room")
	}
	l.use(c[3], true)
	l.use(c[2], false)
	l.use(c[0], true) // it is gone
	l.changed(c[4], 0)
	if !c[2].closed || c[3].closed || c[4].closed || len(l.open) != 2 {
		t.Error("one that became idle has not made room")
	}
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{"a\nb\tc": "a b c", "\x1b[31m": "�[31m", "a\u202eb": "a�b", "größe": "größe", "\xff": "�"} {
		if got := plain(in, 100); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := plain(strings.Repeat("ö", 10), 5); got != "öö…" {
		t.Errorf("bounded: %q", got)
	}
}

// What a second of the page costs while somebody looks: three consumers, 1,000 held messages, 32 failures.
func BenchmarkRender(b *testing.B) {
	now := time.Now()
	r := runner{Stream: "EVENTS", Consumer: "a", Alive: true, Ready: true, State: "working", History: (&history{}).shown(), Failures: make([]failure, 32), Settings: make([]setting, 41)}
	for i := range r.History.AckedPerSecond {
		r.History.AckedPerSecond[i], r.History.Unprocessed[i] = new(float64(i)), new(float64(i))
	}
	for i := range 1000 {
		r.marks = append(r.marks, worker.HeldItem{Sequence: uint64(990_000 + i), Running: i < 16})
	}
	st := status{Now: now, Process: thisProcess(), Runners: []runner{r}, Tapes: []seenTape{{Stream: "EVENTS", Tape: &tape.Tape{Stream: "EVENTS", First: 1, Last: 1_000_000,
		Messages: 1_000_000, Cursors: []tape.Cursor{cursor("a", 989_000, 991_000, 1000, 9000), cursor("b", 1, 1, 0, 9), cursor("c", 5, 9, 2, 8)}}}}}
	s, size := Handler(Options{}), 0
	b.ReportAllocs()
	for b.Loop() {
		another := st
		for _, part := range s.render(&another).parts {
			size += len(part)
		}
	}
	b.ReportMetric(float64(size)/float64(b.N), "B/page")
}
