package fault_test

import (
	"context"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/testutil/fault"
	"github.com/nats-io/nats.go/jetstream"
)

// bench is where a worker that is written by hand, well or badly, works on messages one after the other.
type bench struct {
	t       *testing.T
	js      jetstream.JetStream
	journal *fault.Journal
	ledger  *fault.Ledger
	tap     *fault.Tap
	floor   *fault.Floor
	handler ackfloor.Handler // writes to the journal
}

func newBench(t *testing.T, n int) *bench {
	t.Helper()
	s := testutil.Server(t)
	s.Stream(t, jetstream.StreamConfig{Name: stream, Subjects: []string{"events.>"}})
	s.Consumer(t, stream, jetstream.ConsumerConfig{Durable: consumer, AckWait: ackWait})
	b := &bench{t: t, js: s.JetStream(t), journal: fault.NewJournal(t)}
	b.handler = b.journal.Wrap(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
		time.Sleep(2 * time.Millisecond)
		return nil
	}))
	b.ledger = &fault.Ledger{JS: b.js, Subject: "events", Keys: 2, Publishers: 1}
	if err := b.ledger.Publish(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	var err error
	if b.tap, err = fault.OpenTap(t.Context(), b.js.Conn(), stream, consumer); err != nil {
		t.Fatal(err)
	}
	b.floor = fault.WatchFloor(t.Context(), b.js, stream, consumer)
	t.Cleanup(b.floor.Close)
	return b
}

// delivery is a message, and its call.
type delivery struct {
	jetstream.Msg
	b *bench
	m *ackfloor.Message
}

// next returns the next n deliveries.
func (b *bench) next(n int) []delivery {
	b.t.Helper()
	c, err := b.js.Consumer(b.t.Context(), stream, consumer)
	if err != nil {
		b.t.Fatal(err)
	}
	batch, err := c.Fetch(n, jetstream.FetchMaxWait(10*time.Second))
	if err != nil {
		b.t.Fatal(err)
	}
	var all []delivery
	for msg := range batch.Messages() {
		meta, err := msg.Metadata()
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, delivery{msg, b, &ackfloor.Message{Subject: msg.Subject(), Data: msg.Data(), Header: msg.Headers(), Stream: meta.Stream, Consumer: meta.Consumer,
			Sequence: meta.Sequence.Stream, Attempt: int(meta.NumDelivered), Published: meta.Timestamp}})
	}
	if len(all) != n {
		b.t.Fatalf("%d messages came of %d: %v", len(all), n, batch.Error())
	}
	return all
}

func (d delivery) handle() { _ = d.b.handler.Handle(d.b.t.Context(), d.m) }

// ack acknowledges, and has the server confirm it.
func (d delivery) ack() {
	d.b.t.Helper()
	if err := d.DoubleAck(d.b.t.Context()); err != nil {
		d.b.t.Fatal(err)
	}
	d.b.journal.Settled(d.m.Sequence, "ack", time.Now())
}

// report waits until the tap and the floor have seen the acks, and checks.
func (b *bench) report(acks int) fault.Report {
	b.t.Helper()
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		events, err := b.journal.Events()
		if err != nil {
			b.t.Fatal(err)
		}
		r := fault.Check(fault.Evidence{Consumer: consumer, Events: events, Ledger: b.ledger.Entries(), Floor: b.floor.Samples(), Wire: b.tap.Settlements()})
		if r.Settlements["ack"] >= acks && len(b.floor.Samples()) > 0 && b.floor.Last().AckPending == 0 {
			return r
		}
		if time.Now().After(limit) {
			b.t.Fatalf("the tap has not heard of %d acks:\n%s", acks, r)
		}
	}
}

// ledgerless is a message that no ledger has.
func (b *bench) ledgerless() *ackfloor.Message {
	return &ackfloor.Message{Subject: "events.x", Stream: stream, Consumer: consumer, Sequence: 99, Attempt: 1}
}

// floorAt waits until the floor was seen there.
func (b *bench) floorAt(sequence uint64) {
	b.t.Helper()
	for limit := time.Now().Add(30 * time.Second); b.floor.Last().Floor != sequence || b.floor.Last().At.IsZero(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			b.t.Fatalf("the floor is at %d, want %d", b.floor.Last().Floor, sequence)
		}
	}
}
