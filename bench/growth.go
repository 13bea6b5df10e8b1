package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
	"github.com/nats-io/nats.go"
)

// The mode growth: what becomes of rate and memory as there is more of something, and what holds the rate down.

const modeGrowth = "growth"

func growth(ctx context.Context, b *bed, opt options, t *table) error {
	for _, part := range []func(context.Context, *bed, options, *table) error{growSlots, growBodies, growProcesses, growStream} {
		if err := part(ctx, b, opt, t); err != nil {
			return err
		}
	}
	return nil
}

// growthHead and growthRow are the columns that the tables of this mode share, behind the one that grows.
func growthHead(what string) []string {
	return []string{what, "who", "n", "msgs/s", "workers CPU µs/msg", "server CPU µs/msg", "workers cores", "server cores", "what limits it"}
}

func growthRow(at, who string, s shared) []string {
	workers, server := s.cores()
	per := func(d time.Duration) string {
		return fmt.Sprintf("%.1f", float64(d.Nanoseconds())/1000/float64(s.n))
	}
	return []string{at, who, fmt.Sprint(s.n), fmt.Sprintf("%.0f", s.rate()), per(s.cpu), per(s.server.CPU), fmt.Sprintf("%.2f", workers), fmt.Sprintf("%.2f", server), s.limit()}
}

// upTo are the powers of a base from first on, up to most, which is among them.
func upTo(first, base, most int) (out []int) {
	for n := first; n < most; n *= base {
		out = append(out, n)
	}
	return append(out, most)
}

// points are all points of a curve, or its ends.
func points[T any](opt options, all []T) []T {
	if opt.ends && len(all) > 2 {
		return []T{all[0], all[len(all)-1]}
	}
	return all
}

// last are all of a list, or the last one.
func last[T any](opt options, all []T) []T {
	if opt.ends {
		return all[len(all)-1:]
	}
	return all
}

// lasts is how many messages it takes to work for about d at a rate, from least to most.
func lasts(d time.Duration, rate float64, least, most int) int {
	return max(least, min(most, int(d.Seconds()*rate)))
}

const growthStream = "GROWTH" // of growSlots and growProcesses: the last n messages of it are taken

// growthFilled is how many messages it needs.
func growthFilled(opt options) int { return lasts(opt.lasting, 150_000, 1000, 300_000) }

// growSlots has more and more handlers at once, which do nothing, or sleep for a millisecond.
func growSlots(ctx context.Context, b *bed, opt options, t *table) error {
	have := growthFilled(opt)
	if err := b.stream(ctx, growthStream); err != nil {
		return err
	}
	if err := b.fill(ctx, growthStream, have, bodySize); err != nil {
		return err
	}
	t.title("Slots: one process, 1 to 256 handlers at once, %d bytes", bodySize)
	t.row(growthHead("slots")...)
	var lines []figures.Line
	for _, work := range []time.Duration{0, time.Millisecond} {
		what := "handlers do nothing"
		if work > 0 {
			what = fmt.Sprintf("handlers take %v", work)
		}
		for _, name := range []string{"ackfloor", "consume-slots"} {
			line := figures.Line{Name: name + ", " + what}
			for _, slots := range points(opt, upTo(1, 4, 256)) {
				n := have
				if work > 0 {
					n = lasts(opt.lasting, float64(slots)/work.Seconds()*0.9, 200, have)
				}
				s, err := b.onDurable(ctx, growthStream, uint64(have-n+1), n, 1000, order{name: name, share: share{slots: slots, work: work}})
				if err != nil {
					return err
				}
				opt.progress("growth: %d slots: %s: %.0f msgs/s", slots, line.Name, s.rate())
				t.row(growthRow(fmt.Sprint(slots), line.Name, s)...)
				line.Add(float64(slots), s.rate())
			}
			lines = append(lines, line)
		}
	}
	t.flush()
	t.chart(figures.Chart{Name: "growth-slots", Title: "Slots of one process", X: figures.Axis{Label: "slots", Log: true}, Y: figures.Axis{Label: "messages a second", Log: true}, Lines: lines})
	return nil
}

// growBodies has larger and larger messages.
func growBodies(ctx context.Context, b *bed, opt options, t *table) error {
	t.title("Payloads: one process, %d slots, handlers that do nothing", slots)
	head := growthHead("bytes")
	t.row(append(head[:len(head)-1:len(head)-1], "MiB/s", head[len(head)-1])...)
	const mib = 1 << 20
	lines := map[string]*figures.Line{"ackfloor": {Name: "ackfloor"}, "consume": {Name: "consume"}}
	bytes := map[string]*figures.Line{"ackfloor": {Name: "ackfloor"}, "consume": {Name: "consume"}}
	for _, size := range points(opt, []int{16, 128, 1 << 10, 8 << 10, 64 << 10, mib}) {
		stream := fmt.Sprintf("BODIES-%d", size)
		n := lasts(opt.lasting, min(120_000, 150*float64(mib)/float64(size)), 50, 250_000)
		if err := errors.Join(b.stream(ctx, stream), b.fill(ctx, stream, n, size)); err != nil {
			return err
		}
		for _, name := range []string{"consume", "ackfloor"} {
			s, err := b.onDurable(ctx, stream, 0, n, 1000, order{name: name, share: share{slots: slots}})
			if err != nil {
				return err
			}
			flow := s.rate() * float64(size) / mib
			row := growthRow(fmt.Sprint(size), name, s)
			t.row(append(row[:len(row)-1:len(row)-1], fmt.Sprintf("%.0f", flow), row[len(row)-1])...)
			opt.progress("growth: %d bytes: %s: %.0f msgs/s, %.0f MiB/s", size, name, s.rate(), flow)
			lines[name].Add(float64(size), s.rate())
			bytes[name].Add(float64(size), flow)
		}
		if err := b.js.DeleteStream(ctx, stream); err != nil {
			return err
		}
	}
	t.flush()
	x := figures.Axis{Label: "bytes of payload", Log: true}
	t.chart(figures.Chart{Name: "growth-bodies", Title: "Payloads: messages a second", X: x, Y: figures.Axis{Label: "messages a second", Log: true}, Lines: []figures.Line{*lines["consume"], *lines["ackfloor"]}})
	t.chart(figures.Chart{Name: "growth-bytes", Title: "Payloads: bytes a second", X: x, Y: figures.Axis{Label: "MiB/s", Log: true}, Lines: []figures.Line{*bytes["consume"], *bytes["ackfloor"]}})
	return nil
}

// growProcesses has more and more processes on one durable.
func growProcesses(ctx context.Context, b *bed, opt options, t *table) error {
	have := growthFilled(opt)
	const pending = 4000 // of the durable: the server's default of 1,000 would limit 16 processes of 64 held messages
	t.title("Processes: 1 to %d on one durable, %d slots each, max_ack_pending %d, %d bytes", opt.processes, slots, pending, bodySize)
	t.row(growthHead("processes")...)
	var lines []figures.Line
	for _, work := range []time.Duration{0, 20 * time.Millisecond} {
		name := "ackfloor, handlers do nothing"
		if work > 0 {
			name = fmt.Sprintf("ackfloor, handlers take %v", work)
		}
		line := figures.Line{Name: name}
		for _, processes := range points(opt, upTo(1, 2, opt.processes)) {
			n := have
			if work > 0 {
				n = lasts(opt.lasting, float64(processes*slots)/work.Seconds(), 200, have)
			}
			orders := make([]order, processes)
			for i := range orders {
				orders[i] = order{name: "ackfloor", share: share{slots: slots, work: work, pending: pending}}
			}
			s, err := b.onDurable(ctx, growthStream, uint64(have-n+1), n, pending, orders...)
			if err != nil {
				return err
			}
			opt.progress("growth: %d processes: %s: %.0f msgs/s", processes, name, s.rate())
			t.row(growthRow(fmt.Sprint(processes), name, s)...)
			line.Add(float64(processes), s.rate())
		}
		lines = append(lines, line)
	}
	t.flush()
	t.chart(figures.Chart{Name: "growth-processes", Title: "Processes on one durable", X: figures.Axis{Label: "processes", Log: true}, Y: figures.Axis{Label: "messages a second", Log: true}, Lines: lines})
	return b.js.DeleteStream(ctx, growthStream)
}

// growStream has more and more messages to handle, in one stream: the last so many of it.
func growStream(ctx context.Context, b *bed, opt options, t *table) error {
	const stream = "LONG"
	if err := b.stream(ctx, stream); err != nil {
		return err
	}
	opt.progress("growth: filling a stream with %d messages", opt.growthN)
	if err := b.flood(ctx, stream, opt.growthN, smallBody); err != nil {
		return err
	}
	t.title("Messages: 1,000 to %d of %d bytes to handle, one process, %d slots, handlers that do nothing", opt.growthN, smallBody, slots)
	head := growthHead("messages")
	t.row(append(head, "worker RSS MB", "live heap MB", "server RSS MB")...)
	rate, memory := figures.Line{Name: "ackfloor"}, figures.Line{Name: "ackfloor: resident"}
	byHand := figures.Line{Name: "consume"}
	for _, n := range points(opt, upTo(1000, 10, opt.growthN)) {
		for _, name := range []string{"consume", "ackfloor"} {
			if name == "consume" && n > 1_000_000 {
				continue // it says nothing new, and takes a minute
			}
			s, err := b.onDurable(ctx, stream, uint64(opt.growthN-n+1), n, 1000, order{name: name, share: share{slots: slots}})
			if err != nil {
				return err
			}
			opt.progress("growth: %d messages: %s: %.0f msgs/s, %.1f MB", n, name, s.rate(), mb(s.peak()))
			live, server := s.reports[0].Samples[0].Live, statusOf(b.pid, "VmRSS:")
			t.row(append(growthRow(fmt.Sprint(n), name, s), fmt.Sprintf("%.1f", mb(s.peak())), fmt.Sprintf("%.2f", mb(live)), fmt.Sprintf("%.0f", mb(server)))...)
			if name == "consume" {
				byHand.Add(float64(n), s.rate())
				continue
			}
			rate.Add(float64(n), s.rate())
			memory.Add(float64(n), mb(s.peak()))
		}
	}
	t.flush()
	x := figures.Axis{Label: "messages to handle", Log: true}
	t.chart(figures.Chart{Name: "growth-messages", Title: "Length of the backlog: rate", X: x, Y: figures.Axis{Label: "messages a second", Log: true}, Lines: []figures.Line{byHand, rate}})
	t.chart(figures.Chart{Name: "growth-memory", Title: "Length of the backlog: memory of the worker", X: x, Y: figures.Axis{Label: "MB"}, Lines: []figures.Line{memory}})
	return b.js.DeleteStream(ctx, stream)
}

// flood is fill for long streams: published without an answer, but for one in so many.
func (b *bed) flood(ctx context.Context, stream string, n, size int) error {
	const every = 5000
	body := make([]byte, size)
	for i := range n {
		if i%every < every-1 && i < n-1 {
			if err := b.nc.PublishMsg(&nats.Msg{Subject: stream, Data: body}); err != nil {
				return err
			}
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		_, err := b.js.Publish(ctx, stream, body)
		cancel()
		if err != nil {
			return err
		}
	}
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	if have := s.CachedInfo().State.Msgs; have != uint64(n) {
		return fmt.Errorf("stored %d messages of %d", have, n)
	}
	return nil
}
