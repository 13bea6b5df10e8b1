package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/pcgroups"
)

// Partitions of one stream, a durable each: by Runners of worker.Partitions, and by a consumer group of pcgroups.

const (
	partitionKeys = 1000
	keepAPart     = 64 // durables' max_ack_pending in pcgroups where order is not asked for
)

// partitionWay is one row: who, and what order it keeps.
type partitionWay struct {
	name    string // in sharers
	what    string
	pending int
	fewer   int // it gets one message of so many
}

var partitionWays = []partitionWay{
	{"ackfloor-partitions", "Runners of worker.Partitions, order by key", 1000, 1},
	{"pcgroups", "pcgroups, max_ack_pending 1: order by partition", 1, 10},
	{"pcgroups", "pcgroups, max_ack_pending 1000", 1000, 1},
}

func partitions(ctx context.Context, b *bed, opt options, t *table) error {
	n := lasts(opt.lasting, 60_000, 1000, 150_000)
	t.title("Partitions by a transform of the stream, %d keys, %d bytes, one process for all of them, %d slots for each partition of Runners; handlers that do nothing, or take 1 ms", partitionKeys, bodySize, slots)
	t.row("partitions", "who", "handlers", "n", "msgs/s", "CPU µs/msg", "server CPU µs/msg", "peak RSS MB")
	var lines []figures.Line
	for _, way := range points(opt, partitionWays) {
		for _, work := range last(opt, []time.Duration{0, time.Millisecond}) {
			line := figures.Line{Name: fmt.Sprintf("%s, %v", way.what, work)}
			for _, parts := range points(opt, []int{1, 4, 16}) {
				few := n / way.fewer
				if work > 0 {
					at := float64(parts) / work.Seconds() * 0.8
					if way.name != "pcgroups" {
						at *= slots
					}
					few = min(few, lasts(opt.lasting/2, at, 200, n))
				}
				s, err := b.partitioned(ctx, way, parts, few, work)
				if err != nil {
					return fmt.Errorf("%s, %d partitions: %w", way.what, parts, err)
				}
				t.row(fmt.Sprint(parts), way.what, work.String(), fmt.Sprint(few), fmt.Sprintf("%.0f", s.rate()), fmt.Sprintf("%.1f", float64(s.cpu.Microseconds())/float64(few)),
					fmt.Sprintf("%.1f", float64(s.server.CPU.Microseconds())/float64(few)), fmt.Sprintf("%.1f", mb(s.peak())))
				opt.progress("scaling: %d partitions: %s, %v: %.0f msgs/s", parts, way.what, work, s.rate())
				line.Add(float64(parts), s.rate())
			}
			lines = append(lines, line)
		}
	}
	t.flush()
	t.note("pcgroups calls back one message at a time for each member, of which there is one for each partition here; its members are pinned, as Runners are with PinnedTTL.")
	t.chart(figures.Chart{Name: "scaling-partitions", Title: "Partitions in one process", X: figures.Axis{Label: "partitions", Log: true}, Y: figures.Axis{Label: "messages a second", Log: true}, Lines: lines})
	return nil
}

// partitioned is one turn, on a stream of its own. Its messages are published once the process is bound: its durables can't be paused, since the libraries make them.
func (b *bed) partitioned(ctx context.Context, way partitionWay, parts, n int, work time.Duration) (shared, error) {
	b.made++
	stream := fmt.Sprintf("PARTS%d", b.made)
	if err := b.partitionedStream(ctx, stream, parts); err != nil {
		return shared{}, err
	}
	defer func() { _ = b.js.DeleteStream(context.WithoutCancel(ctx), stream) }()
	body := make([]byte, bodySize)
	if err := b.publish(ctx, stream, n, func(i int) (string, []byte) { return fmt.Sprintf("%s.%d", stream, i%partitionKeys), body }); err != nil {
		return shared{}, err
	}
	names, err := b.pausedParts(ctx, way, stream, parts)
	if err != nil {
		return shared{}, err
	}
	begin := func() error {
		var faults []error
		for _, name := range names {
			_, err := b.js.ResumeConsumer(ctx, stream, name)
			faults = append(faults, err)
		}
		return errors.Join(faults...)
	}
	o := order{name: way.name, target: b.at(stream, "group"), share: share{slots: slots, parts: parts, pending: way.pending, work: work}}
	s, err := b.together(ctx, []order{o}, n, begin, func(ctx context.Context) (time.Time, error) {
		var faults []error
		for _, name := range names {
			c, err := b.js.Consumer(ctx, stream, name)
			if err == nil {
				_, err = settled(ctx, c)
			}
			faults = append(faults, err)
		}
		return time.Now(), errors.Join(faults...)
	})
	if err == nil {
		err = s.complete(way.name)
	}
	return s, err
}

// partitionedStream makes a stream that writes a partition's number into each subject, in front of all.
func (b *bed) partitionedStream(ctx context.Context, stream string, parts int) error {
	return b.streamOf(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{stream + ".*"}, SubjectTransform: &jetstream.SubjectTransformConfig{
		Source: stream + ".*", Destination: fmt.Sprintf("{{partition(%d,1)}}.%s.{{wildcard(1)}}", parts, stream),
	}})
}

// pausedParts makes the durables of all partitions as their library would, paused, and returns their names.
func (b *bed) pausedParts(ctx context.Context, way partitionWay, stream string, parts int) (names []string, err error) {
	until := time.Now().Add(time.Hour)
	members := memberNames(parts)
	if way.name == "pcgroups" {
		if _, err := pcgroups.CreateStatic(ctx, b.js, stream, "group", uint(parts), []string{">"}, members, nil); err != nil {
			return nil, err
		}
	}
	for i := range parts {
		cfg := jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: way.pending, PauseUntil: &until}
		cfg.Durable, cfg.FilterSubject = fmt.Sprintf("group_p%d", i), fmt.Sprintf("%d.%s.*", i, stream)
		if way.name == "pcgroups" {
			cfg.Durable, cfg.FilterSubject, cfg.FilterSubjects = "group-"+members[i], "", pcgroups.GeneratePartitionFilters(members, uint(parts), nil, members[i], ">")
			cfg.PriorityGroups, cfg.PriorityPolicy, cfg.PinnedTTL = []string{"PCG"}, jetstream.PriorityPolicyPinned, 30*time.Second
		}
		if _, err := b.consumer(ctx, stream, cfg); err != nil {
			return nil, err
		}
		names = append(names, cfg.Durable)
	}
	return names, nil
}
