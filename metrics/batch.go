package metrics

import (
	"context"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/internal/outcome"
)

// WrapBatch is Wrap for a handler of batches: for worker.NewBatch and worker.MainBatch. The duration and the outcome are those of the call, counted once for the batch, with the kind of
// its first message; the outcome is read from what the call returns, so a batch of which only some messages failed (a *BatchError) counts as failed, and one whose handler used Fail and
// returned nil as ok. Age and attempt are those of each message. What became of each message is in ackfloor_messages_total.
func (x *Metrics) WrapBatch(h ackfloor.BatchHandler) ackfloor.BatchHandler {
	x.wrapped.Store(true)
	return ackfloor.BatchHandlerFunc(func(ctx context.Context, b *ackfloor.Batch) error { return x.handleBatch(ctx, b, h) })
}

func (x *Metrics) handleBatch(ctx context.Context, b *ackfloor.Batch, h ackfloor.BatchHandler) error {
	began := time.Since(x.base)
	now := x.wall.Load() + int64(began)
	s := x.series[len(x.series)-1]
	for i, m := range b.Messages {
		of := x.seriesOf(m)
		of.arrived(m, now)
		if i == 0 {
			s = of
		}
	}
	out := outcome.Panicked // unless it returns
	defer func() { s.took[out].observe(time.Since(x.base) - began) }()
	err := h.HandleBatch(ctx, b)
	out = outcome.Of(ctx, err)
	return err
}
