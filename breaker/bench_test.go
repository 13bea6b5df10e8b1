package breaker_test

import (
	"context"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/breaker"
	"github.com/ackfloor/ackfloor/testutil"
)

func benchmarked(tb testing.TB, cfg breaker.Config, answer error) (ackfloor.Handler, *ackfloor.Message) {
	b, err := breaker.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return b.Wrap(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { return answer })), testutil.Message("events.order", nil)
}

// What a breaker adds to a call while it is closed, and what a refusal costs.
func BenchmarkHandle(b *testing.B) {
	row, window := breaker.Config{}, breaker.Config{Ratio: 0.5, Calls: 20, Window: 10 * time.Second}
	for _, bm := range []struct {
		name   string
		cfg    breaker.Config
		answer error
	}{
		{"closed", row, nil},
		{"closed, window", window, nil},
		{"open", breaker.Config{Failures: 1, Delay: time.Hour}, errDown},
	} {
		b.Run(bm.name, func(b *testing.B) {
			h, m := benchmarked(b, bm.cfg, bm.answer)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				_ = h.Handle(ctx, m)
			}
		})
	}
	b.Run("closed, parallel", func(b *testing.B) {
		h, m := benchmarked(b, row, nil)
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for ctx := context.Background(); p.Next(); {
				_ = h.Handle(ctx, m)
			}
		})
	})
}

func TestClosedCallsAllocateNothing(t *testing.T) {
	for _, cfg := range []breaker.Config{{}, {Ratio: 0.5, Calls: 20, Window: time.Second}} {
		h, m := benchmarked(t, cfg, nil)
		if n := testing.AllocsPerRun(1000, func() { _ = h.Handle(t.Context(), m) }); n != 0 {
			t.Errorf("%+v: %v allocations", cfg, n)
		}
	}
}
