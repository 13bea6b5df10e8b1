package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
	"github.com/nats-io/nats.go/jetstream"
)

// The mode held: a thousand messages in handlers that take long. What a worker uses then is what their leases cost.

const (
	modeHeld  = "held"
	heldCount = 1000
)

func held(ctx context.Context, b *bed, opt options, t *table) error {
	const stream = "HELD"
	if err := b.stream(ctx, stream); err != nil {
		return err
	}
	if err := b.fill(ctx, stream, heldCount, bodySize); err != nil {
		return err
	}
	long := 6 * opt.lasting
	t.title("%d messages held by handlers that are not done, for %v: CPU as %% of a core, and how often a message came again", heldCount, long)
	t.row("", "ack_wait", "CPU %", "server CPU %", "peak RSS MB", "came again")
	var bars []figures.Bar
	for _, row := range []struct {
		name    string
		ackWait time.Duration
	}{{"ackfloor", 30 * time.Second}, {"consume-held", 30 * time.Second}, {"ackfloor", 3 * time.Second}, {"consume-held", 3 * time.Second}} {
		s, again, err := b.hold(ctx, stream, row.name, row.ackWait, min(time.Second, opt.lasting), long)
		if err != nil {
			return err
		}
		self, server := s.cores()
		name := fmt.Sprintf("%s, %v", row.name, row.ackWait)
		t.row(row.name, row.ackWait.String(), fmt.Sprintf("%.2f", 100*self), fmt.Sprintf("%.2f", 100*server), fmt.Sprintf("%.1f", mb(s.peak())), fmt.Sprint(again))
		opt.progress("held: %s: %.2f %% of a core", name, 100*self)
		bars = append(bars, figures.Bar{Name: name, Y: 100 * self})
	}
	t.flush()
	t.note("consume-held is Consume by hand with a goroutine for each message that sends InProgress every third of ack_wait.")
	t.aim("1,000 messages held, ack_wait 30s: % of a core", bars[0].Y, below, 100*idleLimit)
	t.chart(figures.Chart{Name: "held", Title: "1,000 messages held: CPU", Y: figures.Axis{Label: "% of a core"}, Bars: bars, Aim: &figures.Level{Name: "aim", Y: 100 * idleLimit}})
	return nil
}

// hold has one process hold all messages of the stream for a while, beginning when all of them have been held for a moment.
func (b *bed) hold(ctx context.Context, stream, name string, ackWait, settle, long time.Duration) (shared, uint64, error) {
	b.made++
	durable, err := b.consumer(ctx, stream, jetstream.ConsumerConfig{
		Durable: fmt.Sprintf("held-%d", b.made), AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: heldCount,
	})
	if err != nil {
		return shared{}, 0, err
	}
	consumer := durable.CachedInfo().Name
	defer b.forget(context.WithoutCancel(ctx), stream, consumer)
	o := order{mode: modeShare, name: name, target: target{url: b.url, stream: stream, consumer: consumer},
		share: share{slots: heldCount, work: time.Hour, ackWait: ackWait}}
	c, err := converse(ctx, o)
	if err != nil {
		return shared{}, 0, err
	}
	defer func() { // its handlers would never end by themselves
		_ = c.cmd.Process.Kill()
		_ = c.end(nil, true)
	}()
	c.say("start")
	if err := c.await("working"); err != nil {
		return shared{}, 0, err
	}
	limit, cancel := context.WithTimeout(ctx, settledLimit)
	defer cancel()
	for held := 0; held < heldCount; {
		info, err := durable.Info(limit)
		if err != nil {
			return shared{}, 0, fmt.Errorf("waiting until %d messages are held, of which %d are: %w", heldCount, held, err)
		}
		held = info.NumAckPending
		if _, err := waited(limit, 20*time.Millisecond); err != nil {
			return shared{}, 0, err
		}
	}
	if _, err := waited(ctx, settle); err != nil { // the first stamps
		return shared{}, 0, err
	}
	pid := fmt.Sprint(c.cmd.Process.Pid)
	self, server, began := workOf(pid), b.work(), time.Now()
	if _, err := waited(ctx, long); err != nil {
		return shared{}, 0, err
	}
	s := shared{n: heldCount, took: time.Since(began), cpu: workOf(pid).since(self).CPU, server: b.work().since(server), reports: []report{{PeakRSS: statusOf(pid, "VmHWM:")}}}
	info, err := durable.Info(ctx)
	if err != nil {
		return s, 0, err
	}
	return s, info.Delivered.Consumer - heldCount, nil
}

// consumeHeld is Consume with a goroutine for each message, which keeps its lease by InProgress, as one writes it by hand.
func consumeHeld(ctx context.Context, o order, handle func([]byte)) (func() error, error) {
	var failed firstError
	var running sync.WaitGroup
	stop, err := consume(ctx, o.target, func(m jetstream.Msg) error {
		running.Go(func() {
			done := make(chan struct{})
			go func() {
				defer close(done)
				handle(m.Data())
			}()
			tick := time.NewTicker(o.share.ackWait / 3)
			defer tick.Stop()
			for {
				select {
				case <-done:
					failed.set(m.Ack())
					return
				case <-tick.C:
					failed.set(m.InProgress())
				}
			}
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return func() error {
		err := stop()
		running.Wait()
		if err == nil {
			err = failed.get()
		}
		return err
	}, nil
}
