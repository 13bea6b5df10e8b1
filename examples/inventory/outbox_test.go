//go:build unix

package main

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

const window = 100 * time.Millisecond // the shortest duplicate window that a server takes

// eventsStream makes EVENTS with a duplicate window that is over at once, so that the Nats-Msg-Id protects from nothing.
func eventsStream(t testing.TB, js jetstream.JetStream) jetstream.Stream {
	t.Helper()
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}, Duplicates: window})
	must(t, err)
	return stream
}

// subjects counts the messages of each subject below events.stock_*.
func subjects(t testing.TB, stream jetstream.Stream) map[string]uint64 {
	t.Helper()
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter("events.>"))
	must(t, err)
	maps.DeleteFunc(info.State.Subjects, func(subject string, _ uint64) bool { return !strings.HasPrefix(subject, "events.stock_") })
	return info.State.Subjects
}

func onceEach(t testing.TB, of map[string]uint64, want int) {
	t.Helper()
	for subject, n := range of {
		if n != 1 {
			t.Errorf("%s is there %d times", subject, n)
		}
	}
	if len(of) != want {
		t.Errorf("%d subjects, want %d", len(of), want)
	}
}

func fill(t testing.TB, s *store, from, to int) {
	t.Helper()
	tx, err := s.db.BeginTx(t.Context(), nil)
	must(t, err)
	for i := from; i < to; i++ {
		must(t, enqueue(t.Context(), tx, "events.stock_reserved", outcome{OrderID: fmt.Sprint(i), SKU: "mug", Quantity: 1}))
	}
	must(t, tx.Commit())
}

// The answer to a publish was lost, or the process died before it could remove what it had published: long after the duplicate window the event is
// tried again, and is not stored again.
func TestAnEventIsPublishedOnceBeyondTheDuplicateWindow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p place) {
		server, s := testutil.Server(t), p.open(t)
		js := server.JetStream(t)
		stream := eventsStream(t, js)
		for range 3 {
			fill(t, s, 0, 50) // the same events
			b := newOutbox(s, js, "EVENTS", zap.NewNop())
			for range 2 {
				_, err := b.round(t.Context())
				must(t, err)
			}
			if left := outboxOf(t, s); len(left) != 0 {
				t.Fatalf("the outbox has %q", left)
			}
			time.Sleep(3 * window)
		}
		onceEach(t, subjects(t, stream), 50)
	})
}

// Two processes publish what one database holds.
func TestTwoOutboxesPublishOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p place) {
		server := testutil.Server(t)
		stream := eventsStream(t, server.JetStream(t))
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 2 {
			b := newOutbox(p.open(t), server.JetStream(t), "EVENTS", zap.NewNop())
			all.Go(func() { must(t, b.run(ctx)) })
		}
		s := p.open(t)
		for i := range 10 {
			fill(t, s, 15*i, 15*i+15)
		}
		eventually(t, 20*time.Second, "the outbox to be empty", func() bool { return number(t, s, "SELECT COUNT(*) FROM inventory_outbox") == 0 })
		stop()
		all.Wait()
		onceEach(t, subjects(t, stream), 150)
	})
}

// What can't be published waits, and goes out when the server is back; and what is left when the worker has drained goes out then.
func TestTheOutboxWaitsForTheServer(t *testing.T) {
	t.Parallel()
	server, s := testutil.Server(t), place{dir: t.TempDir()}.open(t)
	js := server.JetStream(t)
	eventsStream(t, js)
	server.Stop()
	fill(t, s, 0, 3)
	b := newOutbox(s, js, "EVENTS", zap.NewNop())
	if _, err := b.round(t.Context()); err == nil || len(outboxOf(t, s)) != 3 {
		t.Errorf("without a server: %v, and the outbox has %q", err, outboxOf(t, s))
	}
	server.Start()
	ctx, stop := context.WithCancel(t.Context())
	stop() // it has drained
	must(t, b.run(ctx))
	if left := outboxOf(t, s); len(left) != 0 {
		t.Errorf("the outbox has %q", left)
	}
	stream, err := js.Stream(t.Context(), "EVENTS")
	must(t, err)
	onceEach(t, subjects(t, stream), 3)
}

// An event that the stream holds under another sequence is found, whoever stored it; one that it does not hold is not taken for stored.
func TestLookTellsWhatTheStreamHolds(t *testing.T) {
	t.Parallel()
	server := testutil.Server(t)
	js := server.JetStream(t)
	eventsStream(t, js)
	b := newOutbox(nil, js, "EVENTS", zap.NewNop())
	e := waiting{subject: "events.stock_reserved.1", payload: "{}"}
	if err := b.look(t.Context(), e); err == nil {
		t.Error("it is found, and was never published")
	}
	_, err := js.Publish(t.Context(), e.subject, nil)
	must(t, err)
	must(t, b.publish(t.Context(), e))
}

func TestRestockFillsTheShelves(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p place) {
		s, service := p.open(t), p.open(t)
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { must(t, s.restock(t.Context(), []delivery{{"kettle", 1}, {"teapot", 20}})) })
			all.Go(func() { must(t, handler(service).Handle(t.Context(), message(order{ID: fmt.Sprint(i), SKU: "mug"}))) })
		}
		all.Wait()
		for sku, want := range map[string]int{"teapot": 412, "kettle": 25, "mug": 20} {
			if n := available(t, s, sku); n != want {
				t.Errorf("%s: %d, want %d", sku, n, want)
			}
		}
		balanced(t, s)
	})
}

func TestWhatCantBeRestockedIsRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"teapot"}, {"teapot="}, {"=3"}, {"teapot=0"}, {"teapot=-1"}, {"teapot=2", "x"}, {"teapot=99999999999999999999"}} {
		if all, err := parseDeliveries(args); err == nil {
			t.Errorf("%q: got %v", args, all)
		}
	}
	all, err := parseDeliveries([]string{"teapot=20", "a=b=3"})
	if err == nil {
		t.Errorf("got %v", all)
	}
}
