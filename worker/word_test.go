package worker

import (
	"math"
	"reflect"
	"testing"
	"time"
)

// What is told is heard, however much and whatever numbers; no part is larger than the least that a server is set up with.
func TestWords(t *testing.T) {
	many := func(n int, step uint64) (out []fact) {
		for i := range n {
			out = append(out, fact{uint64(i)*step + 1, int64(i%2)*math.MaxInt64 - 1, int64(i % 3)})
		}
		return out
	}
	created := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, w := range []word{
		{From: "a", Created: created},
		{From: "a", Created: created, Ask: true, Last: true, Forgot: true, Settled: many(1, 1), Held: many(2, 7)},
		{From: "a", Created: created, Ask: true, Settled: many(settledSize, math.MaxUint64/settledSize), Held: many(1500, math.MaxInt64/1000)},
	} {
		var got word
		for i, part := range w.parts() {
			p, ok := readWord(part)
			if !ok || len(part) > 64<<10 || p.From != w.From || !p.Created.Equal(w.Created) || p.Ask != (w.Ask && i == 0) || p.Last != w.Last || p.Forgot != w.Forgot {
				t.Fatalf("part %d of %d bytes is read as %+v, %v", i, len(part), p, ok)
			}
			got.Settled, got.Held = append(got.Settled, p.Settled...), append(got.Held, p.Held...)
		}
		if len(w.Settled)+len(w.Held) > 0 && (!reflect.DeepEqual(got.Settled, w.Settled) || !reflect.DeepEqual(got.Held, w.Held)) {
			t.Errorf("%d and %d messages are read as %d and %d, or as others", len(w.Settled), len(w.Held), len(got.Settled), len(got.Held))
		}
	}
}

// Whatever somebody publishes there, reading it does no harm.
func FuzzWord(f *testing.F) {
	for _, s := range []string{"", "{}", `{"settled":[1,2,3],"held":[1,2]}`, `{"settled":[-9223372036854775808,1,1,-1,1,1]}`, `{"created":"x"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if w, ok := readWord(data); ok {
			b := newBuffer(1, time.Minute)
			b.hearSettledLocked(w.Settled, anotherWorker, time.Second)
			b.hearHeldLocked(w.Held, time.Second, time.Second)
			w.parts()
		}
	})
}
