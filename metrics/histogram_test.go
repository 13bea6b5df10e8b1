package metrics

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// native lays the spans of a native histogram out: counts by the number of the bucket.
func native(h *dto.Histogram) map[int]int64 {
	out := make(map[int]int64)
	key, place, count := 0, 0, int64(0)
	for _, s := range h.PositiveSpan {
		key += int(s.GetOffset())
		for range s.GetLength() {
			count += h.PositiveDelta[place]
			if count != 0 { // client_golang fills small gaps
				out[key] = count
			}
			place++
			key++
		}
	}
	return out
}

// Both kinds of buckets hold what those of client_golang hold, for durations of all sizes, and on the bounds of both.
func TestHistogramIsThatOfPrometheus(t *testing.T) {
	for _, classic := range [][]float64{defaultBuckets, defaultAgeBuckets, {1e-10, 3e-8, 1}, {}} {
		theirs := prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "a", Buckets: append([]float64{}, classic...), NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: math.Exp2(lowest),
		})
		ours := newHistogram(newScale(classic))
		observe := func(d time.Duration) {
			theirs.Observe(float64(d) / 1e9)
			ours.observe(d)
		}
		for n := range 20000 {
			observe(time.Duration(rand.Int64N(1 << (1 + n%62))))
		}
		for _, b := range classic {
			for off := range time.Duration(3) {
				observe(max(0, time.Duration(math.Round(b*1e9))+off-1))
			}
		}
		for e := range 63 {
			observe(1<<e - 1)
			observe(1 << e)
		}
		observe(math.MaxInt64)
		var m dto.Metric
		if err := theirs.Write(&m); err != nil {
			t.Fatal(err)
		}
		want, got := m.Histogram, ours.read()
		if got.GetSchema() != want.GetSchema() || got.GetZeroThreshold() != want.GetZeroThreshold() || got.GetZeroCount() != want.GetZeroCount() {
			t.Errorf("schema %d, zero bucket %d up to %g; want %d, %d, %g", got.GetSchema(), got.GetZeroCount(), got.GetZeroThreshold(),
				want.GetSchema(), want.GetZeroCount(), want.GetZeroThreshold())
		}
		if got.GetSampleCount() != want.GetSampleCount() {
			t.Errorf("count %d, want %d", got.GetSampleCount(), want.GetSampleCount())
		}
		for key, n := range native(want) {
			if native(got)[key] != n {
				t.Errorf("native bucket %d: %d, want %d", key, native(got)[key], n)
			}
		}
		if len(native(got)) != len(native(want)) {
			t.Errorf("%d native buckets, want %d", len(native(got)), len(native(want)))
		}
		if len(got.Bucket) != len(classic) {
			t.Fatalf("%d classic buckets", len(got.Bucket))
		}
		for i, b := range classic {
			if w := want.Bucket[i]; got.Bucket[i].GetUpperBound() != b || got.Bucket[i].GetCumulativeCount() != w.GetCumulativeCount() {
				t.Errorf("up to %g: %d, want %d", b, got.Bucket[i].GetCumulativeCount(), w.GetCumulativeCount())
			}
		}
	}
}

// The sum is exact, and an age below zero, which two clocks may make, counts as zero.
func TestSum(t *testing.T) {
	h := newHistogram(newScale(defaultBuckets))
	for _, d := range []time.Duration{time.Second, 500 * time.Millisecond, -time.Hour} {
		h.observe(d)
	}
	if r := h.read(); r.GetSampleSum() != 1.5 || r.GetSampleCount() != 3 || r.GetZeroCount() != 1 {
		t.Errorf("%v", r)
	}
}

// A histogram without an observation is a native one, too, with all its classic buckets.
func TestEmptyHistogram(t *testing.T) {
	r := newHistogram(newScale(defaultBuckets)).read()
	if r.GetSampleCount() != 0 || r.GetZeroThreshold() == 0 || len(r.PositiveSpan) != 0 || len(r.Bucket) != len(defaultBuckets) {
		t.Errorf("%v", r)
	}
}

func FuzzCell(f *testing.F) {
	s := newScale(defaultAgeBuckets)
	for _, ns := range []int64{0, 1, 15, 16, 17, 59, 60, 1e6, 1e9, math.MaxInt64} {
		f.Add(ns)
	}
	f.Fuzz(func(t *testing.T, ns int64) {
		if ns < 0 {
			return
		}
		if i := s.cell(ns); ns > s.bounds[i] || i > 0 && ns <= s.bounds[i-1] {
			t.Errorf("%d ns is in cell %d", ns, i)
		}
	})
}

func BenchmarkObserve(b *testing.B) {
	durations := make([]time.Duration, 1024)
	for i := range durations {
		durations[i] = time.Duration(rand.ExpFloat64() * 1e6)
	}
	theirs := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "a", Buckets: defaultBuckets, NativeHistogramBucketFactor: 1.1})
	b.Run("client_golang", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			theirs.Observe(durations[i%1024].Seconds())
		}
	})
	ours := newHistogram(newScale(defaultBuckets))
	b.Run("cells", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			ours.observe(durations[i%1024])
		}
	})
}
