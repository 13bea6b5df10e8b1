package fault_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/testutil/fault"
	"github.com/nats-io/nats.go/jetstream"
)

// broken are the names of the invariants that do not hold.
func broken(r fault.Report) string {
	var names []string
	for _, i := range []fault.Invariant{fault.NothingAgain, fault.OnlyHeldAgain, fault.NothingConfirmedAgain, fault.FloorKept, fault.OneVerdict, fault.NoSkip,
		fault.NothingUnexpected, fault.NoEarlyAck, fault.KeysInOrder, fault.Slots(1), fault.LettersOnce, fault.Progress(time.Second)} {
		if i.Broken(r) != "" {
			names = append(names, i.Name)
		}
	}
	return strings.Join(names, "; ")
}

// What the checker sees of a worker that is broken on purpose: each in one way, and of one that is not.
func TestTheCheckerSees(t *testing.T) {
	const n = 6
	again := fault.OnlyHeldAgain.Name
	for _, row := range []struct {
		name string
		work func(b *bench)
		sees string
	}{
		{"nothing in a good worker", func(b *bench) {
			for _, d := range b.next(n) {
				d.handle()
				d.ack()
			}
		}, ""},
		{"an ack before the handler", func(b *bench) {
			for _, d := range b.next(n) {
				d.ack()
				d.handle()
			}
		}, fault.NoEarlyAck.Name},
		{"a message that is handled twice", func(b *bench) {
			for _, d := range b.next(n) {
				d.handle()
				d.handle()
				d.ack()
			}
		}, fault.NothingAgain.Name + "; " + again},
		{"a message that is handled again although it was confirmed", func(b *bench) {
			for _, d := range b.next(n) {
				d.handle()
				d.ack()
				d.handle()
			}
		}, fault.NothingAgain.Name + "; " + again + "; " + fault.NothingConfirmedAgain.Name},
		{"messages that are skipped", func(b *bench) {
			for i, d := range b.next(n) {
				if i != 0 && i != 3 && i != 5 {
					d.handle()
				}
				d.ack()
			}
		}, fault.NoSkip.Name + "; " + fault.NoEarlyAck.Name},
		{"more than the slots", func(b *bench) {
			var both sync.WaitGroup
			for pair := range slices.Chunk(b.next(n), 2) { // of two keys
				both.Go(pair[0].handle)
				both.Go(pair[1].handle)
				both.Wait()
				pair[0].ack()
				pair[1].ack()
			}
		}, fault.Slots(1).Name},
		{"two verdicts", func(b *bench) {
			for _, d := range b.next(n) {
				d.handle()
				if err := d.Nak(); err != nil {
					b.t.Fatal(err)
				}
				if err := b.js.Conn().PublishRequest(d.Reply(), b.js.Conn().NewInbox(), []byte("+ACK")); err != nil {
					b.t.Fatal(err)
				}
			}
		}, fault.OneVerdict.Name},
		{"a key out of order", func(b *bench) {
			all := b.next(n)
			for _, i := range []int{2, 1, 0, 3, 4, 5} {
				all[i].handle()
				all[i].ack()
			}
		}, fault.KeysInOrder.Name},
		{"what nobody published", func(b *bench) {
			for _, d := range b.next(n) {
				d.handle()
				d.ack()
			}
			m := *b.ledgerless()
			_ = b.handler.Handle(b.t.Context(), &m)
		}, fault.NothingUnexpected.Name},
		{"an ack floor that goes back", func(b *bench) {
			for _, d := range b.next(n) {
				d.handle()
				d.ack()
			}
			b.floorAt(n)
			if err := b.js.DeleteConsumer(b.t.Context(), stream, consumer); err != nil {
				b.t.Fatal(err)
			}
			if _, err := b.js.CreateConsumer(b.t.Context(), stream, jetstream.ConsumerConfig{Durable: consumer, AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
				b.t.Fatal(err)
			}
			b.floorAt(0)
		}, fault.FloorKept.Name},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, n)
			row.work(b)
			r := b.report(n)
			if got := broken(r); got != row.sees {
				t.Errorf("it sees %q, want %q:\n%s", got, row.sees, r)
			}
			if row.name == "messages that are skipped" && (len(r.Lost.Prefix) != 1 || len(r.Lost.Middle) != 1 || len(r.Lost.Postfix) != 1) {
				t.Errorf("lost are %+v", r.Lost)
			}
		})
	}
}

// A worker that leaks is seen by its samples.
func TestTheCheckerSeesALeak(t *testing.T) {
	j := fault.NewJournal(t)
	ctx, stop := context.WithCancel(t.Context())
	sampled := make(chan error, 1)
	release := make(chan struct{})
	var leaks sync.WaitGroup
	for range 500 {
		leaks.Go(func() { <-release })
	}
	hoard := make([]byte, 64<<20)
	for i := range hoard {
		hoard[i] = 1
	}
	go func() { sampled <- j.Sample(ctx, time.Millisecond, func() int { return len(hoard) }) }()
	var r fault.Report
	for limit := time.Now().Add(30 * time.Second); r.Samples < 2 && time.Now().Before(limit); time.Sleep(time.Millisecond) {
		events, err := j.Events()
		if err != nil {
			t.Fatal(err)
		}
		r = fault.Check(fault.Evidence{Events: events})
	}
	stop()
	close(release)
	leaks.Wait()
	if err := <-sampled; err != nil {
		t.Error(err)
	}
	if r.MostGoroutines < 500 || r.MostHeap < 64<<20 || r.MostMemory < 64<<20 || r.MostHeld != len(hoard) {
		t.Errorf("it sees %+v", r)
	}
	if len(r.Broken(fault.Bounded(200, 1<<40))) != 1 || len(r.Broken(fault.Bounded(100000, 1<<20))) != 1 || len(r.Broken(fault.Bounded(100000, 1<<40))) != 0 {
		t.Errorf("Bounded says %v", r.Broken(fault.Bounded(200, 1<<40)))
	}
	if len(fault.Check(fault.Evidence{}).Broken(fault.Bounded(1, 1))) != 1 {
		t.Error("without a sample it holds")
	}
}

// A trial whose worker is broken fails: one that says nothing is not taken for a good one.
func TestATrialOfADeafWorkerFails(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	s := testutil.Server(t)
	s.Stream(t, jetstream.StreamConfig{Name: stream, Subjects: []string{"events.>"}})
	s.Consumer(t, stream, jetstream.ConsumerConfig{Durable: consumer})
	js := s.JetStream(t)
	tr := fault.Trial{JS: js, Stream: stream, Consumer: consumer, Child: fault.Child{Name: "sleeper", Journal: fault.NewJournal(t)},
		Ledger:   &fault.Ledger{JS: js, Subject: "events"},
		Messages: 50, Limit: time.Second, Seed: 7}
	r, err := tr.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "limit") || r.Lost.Len() < 50 || len(r.Lost.Postfix) != r.Confirmed || r.Seed != 7 {
		t.Errorf("it ended with %v:\n%s", err, r)
	}
	if _, err := new(fault.Trial).Run(t.Context()); err == nil {
		t.Error("an empty trial is no error")
	}
	if errors.Is(err, fault.ErrMissed) {
		t.Error("it says that nothing was there to break")
	}
}
