package tape

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestThreeServicesAtThreePositions(t *testing.T) {
	leaksNothing(t)
	s := testutil.Server(t)
	three(t, s)
	tape := read(t, NewReader(s.JetStream(t), "EVENTS"))
	if tape.Stream != "EVENTS" || tape.First != 1 || tape.Last != 8 || tape.Messages != 8 || tape.Bytes == 0 || tape.LastTime.IsZero() || tape.Partial != "" || tape.Deleted != nil {
		t.Errorf("%+v", tape)
	}
	want := []Cursor{
		{Consumer: "audit", Delivered: 8, AckFloor: 8, MaxAckPending: 1000, Durable: true, Pull: true},
		{Consumer: "billing", Delivered: 6, AckFloor: 3, Outstanding: 2, MaxAckPending: 1000, Unprocessed: 2, Durable: true, Pull: true},
		{Consumer: "email", Delivered: 2, AckFloor: 2, MaxAckPending: 1000, Unprocessed: 6, Durable: true, Pull: true},
	}
	wantMarks := []string{"dddddddd", "dddoooaa", "ddaaaaaa"}
	for i, c := range tape.Cursors {
		if got := marks(tape, c); got != wantMarks[i] {
			t.Errorf("%s: marks %s, not %s", c.Consumer, got, wantMarks[i])
		}
		if c.DeliveredAt.IsZero() || c.AckFloorAt.IsZero() {
			t.Errorf("%s: no times", c.Consumer)
		}
		tape.Cursors[i].DeliveredAt, tape.Cursors[i].AckFloorAt = time.Time{}, time.Time{}
	}
	if !reflect.DeepEqual(tape.Cursors, want) {
		t.Errorf("\n%+v, not\n%+v", tape.Cursors, want)
	}
}

func TestDeletedMessagesAreGaps(t *testing.T) {
	s := testutil.Server(t)
	three(t, s)
	stream := s.Stream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}})
	for _, sequence := range []uint64{5, 3, 7} {
		if err := stream.DeleteMsg(t.Context(), sequence); err != nil {
			t.Fatal(err)
		}
	}
	r := NewReader(s.JetStream(t), "EVENTS")
	tape := read(t, r)
	if tape.First != 1 || tape.Last != 8 || tape.Messages != 5 || !slices.Equal(tape.Deleted, []uint64{3, 5, 7}) {
		t.Errorf("%+v", tape)
	}
	if got := marks(tape, of(t, tape, "email")); got != "dd-a-a-a" {
		t.Errorf("marks %s", got)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tape := read(t, r); tape.First != 9 || tape.Last != 8 || tape.Messages != 0 || tape.Deleted != nil {
		t.Errorf("after a purge: %+v", tape)
	}
}

func TestAFilterLeavesNothingAheadThatIsNotTheConsumers(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 8)
	one := s.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "one", FilterSubject: "events.2"})
	s.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "two", FilterSubjects: []string{"events.2", "events.4"}})
	settle(t, one, 1)
	tape := read(t, NewReader(s.JetStream(t), "EVENTS"))
	if c := of(t, tape, "one"); !slices.Equal(c.Filter, []string{"events.2"}) || c.Unprocessed != 0 || marks(tape, c) != "dddddddd" {
		t.Errorf("%+v %s", c, marks(tape, c))
	}
	if c := of(t, tape, "two"); !slices.Equal(c.Filter, []string{"events.2", "events.4"}) || c.Unprocessed != 2 || marks(tape, c) != "aaaaaaaa" {
		t.Errorf("%+v %s", c, marks(tape, c))
	}
}

func TestDurableConsumersComeFirst(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 2)
	js := s.JetStream(t)
	for _, cfg := range []jetstream.ConsumerConfig{{Name: "a"}, {Durable: "c"}, {Durable: "b", PauseUntil: new(time.Now().Add(time.Hour)), MaxAckPending: -1}} {
		if _, err := js.CreateConsumer(t.Context(), "EVENTS", cfg); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.CreatePushConsumer(t.Context(), "EVENTS", jetstream.ConsumerConfig{Durable: "d", DeliverSubject: "to.d"}); err != nil {
		t.Fatal(err)
	}
	tape := read(t, NewReader(js, "EVENTS"))
	if got := names(tape); !slices.Equal(got, []string{"b", "c", "d", "a"}) {
		t.Errorf("order %v", got)
	}
	if a, b, d := of(t, tape, "a"), of(t, tape, "b"), of(t, tape, "d"); a.Durable || !a.Pull || !b.Paused || b.MaxAckPending > 0 || d.Pull || !d.Durable {
		t.Errorf("%+v %+v %+v", a, b, d)
	}
}

// More consumers than come on one page.
func TestManyConsumers(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 1)
	js := s.JetStream(t)
	for i := range 600 {
		cfg := jetstream.ConsumerConfig{Durable: fmt.Sprintf("c%03d", i), MemoryStorage: true}
		if _, err := js.CreateConsumer(t.Context(), "EVENTS", cfg); err != nil {
			t.Fatal(err)
		}
	}
	if tape := read(t, NewReader(js, "EVENTS")); len(tape.Cursors) != 600 || tape.Cursors[599].Consumer != "c599" || tape.Partial != "" {
		t.Errorf("%d cursors, %q", len(tape.Cursors), tape.Partial)
	}
}

func TestConsumersComeAndGoWhileItReads(t *testing.T) {
	leaksNothing(t)
	s := testutil.Server(t)
	s.Events(t, 3)
	js := s.JetStream(t)
	r := NewReader(js, "EVENTS")
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	var all sync.WaitGroup
	for n := range 2 {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("c%d-%d", n, i%5)
				if _, err := js.CreateConsumer(t.Context(), "EVENTS", jetstream.ConsumerConfig{Durable: name}); err != nil {
					t.Errorf("create: %v", err)
				}
				if i%2 == 0 {
					if err := js.DeleteConsumer(t.Context(), "EVENTS", name); err != nil {
						t.Errorf("delete: %v", err)
					}
				}
			}
		})
		all.Go(func() {
			for ctx.Err() == nil {
				tape, err := r.Read(t.Context())
				if err != nil {
					t.Errorf("read: %v", err)
				} else if tape.Partial != "" || slices.ContainsFunc(tape.Cursors, func(c Cursor) bool { return c.Error != "" }) {
					t.Errorf("%+v", tape)
				}
			}
		})
	}
	all.Wait()
	for _, name := range names(read(t, r)) {
		if err := js.DeleteConsumer(t.Context(), "EVENTS", name); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(read(t, r)); len(got)+len(r.known) != 0 {
		t.Errorf("deleted consumers stay on the tape, or in memory: %v", got)
	}
}

func TestWhatIsNotThere(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 1)
	js := s.JetStream(t)
	if _, err := NewReader(js, "NONE").Read(t.Context()); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("no stream: %v", err)
	}
	for _, name := range []string{"", "A.B", "*", ">", "A B"} {
		if _, err := NewReader(js, name).Read(t.Context()); err == nil || !strings.Contains(err.Error(), "is no name of a stream") {
			t.Errorf("%q: %v", name, err)
		}
	}
	tape := read(t, NewReader(js, "EVENTS", "b", "a.>", "b"))
	if len(tape.Cursors) != 2 || tape.Cursors[1].Error != "there is no such consumer" || tape.Partial != "" {
		t.Errorf("%+v", tape)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the page was closed")
	cancel(reason)
	if _, err := NewReader(js, "EVENTS").Read(ctx); !errors.Is(err, reason) {
		t.Errorf("cancelled: %v", err)
	}
	plain := testutil.Server(t, func(o *server.Options) { o.JetStream = false })
	if _, err := NewReader(plain.JetStream(t), "EVENTS").Read(t.Context()); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("no JetStream: %v", err)
	}
}

func TestDomainAndPrefix(t *testing.T) {
	s := testutil.Server(t, func(o *server.Options) { o.JetStreamDomain = "hub" })
	s.Events(t, 3)
	nc := s.Conn(t)
	domain, err := jetstream.NewWithDomain(nc, "hub")
	if err != nil {
		t.Fatal(err)
	}
	dotless, err := jetstream.NewWithAPIPrefix(nc, "$JS.hub.API")
	if err != nil {
		t.Fatal(err)
	}
	dotted, err := jetstream.NewWithAPIPrefix(nc, "$JS.hub.API.")
	if err != nil {
		t.Fatal(err)
	}
	for name, js := range map[string]jetstream.JetStream{"domain": domain, "prefix": dotless, "prefix with its dot": dotted} {
		if tape := read(t, NewReader(js, "EVENTS")); tape.Last != 3 {
			t.Errorf("%s: %+v", name, tape)
		}
	}
	elsewhere, err := jetstream.NewWithDomain(nc, "elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewReader(elsewhere, "EVENTS").Read(t.Context()); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("another domain: %v", err)
	}
}

func TestAServerThatRestarts(t *testing.T) {
	leaksNothing(t)
	s := testutil.Server(t)
	three(t, s)
	r := NewReader(s.JetStream(t), "EVENTS")
	before := read(t, r)
	s.Stop()
	begun := time.Now()
	if _, err := r.Read(t.Context()); !errors.Is(err, nats.ErrDisconnected) || time.Since(begun) > infoWait {
		t.Errorf("stopped: %v after %v", err, time.Since(begun))
	}
	s.Start()
	for end := time.Now().Add(20 * time.Second); ; {
		after, err := r.Read(t.Context())
		if err == nil && after.Partial == "" {
			if after.Last != before.Last || !slices.Equal(names(after), names(before)) || of(t, after, "billing").AckFloor != 3 {
				t.Errorf("after: %+v", after)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it does not come back: %v %+v", err, after)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
