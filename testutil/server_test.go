package testutil

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestServerKeepsPortAndStore(t *testing.T) {
	others := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, others) })
	s := Server(t)
	s.Events(t, 10)
	c := s.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "d"})
	if body := nextBody(t, c); body != "0" {
		t.Fatalf("the first body is %q", body)
	}
	nc, url, dir := s.Conn(t), s.URL(), s.StoreDir()
	s.Stop()
	if other, err := nats.Connect(url); err == nil {
		other.Close()
		t.Fatal("the server is stopped and still takes connections")
	}
	if s.Server() != nil {
		t.Error("Server returns a server while it is stopped")
	}
	s.Stop() // again: nothing
	s.Start()
	if s.URL() != url || s.StoreDir() != dir {
		t.Errorf("after Start: %s in %s, before: %s in %s", s.URL(), s.StoreDir(), url, dir)
	}
	s.Restart()
	if !poll(5*time.Second, nc.IsConnected) {
		t.Error("the connection did not come back")
	}
	info := s.Info(t, "EVENTS", "d")
	if info.AckFloor.Stream != 1 || info.NumPending != 9 {
		t.Errorf("after two restarts: %s", describe(info))
	}
	if body := nextBody(t, c); body != "1" {
		t.Errorf("the next body is %q, want 1", body)
	}
}

func TestServerOptions(t *testing.T) {
	s := Server(t, func(o *server.Options) { o.Username, o.Password = "ann", "secret" })
	if _, err := nats.Connect(s.URL()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without a password: %v", err)
	}
	s.Login(nats.UserInfo("ann", "secret"))
	s.Events(t, 1)
	if _, err := s.JetStream(t, nats.UserInfo("ann", "secret")).Stream(t.Context(), "EVENTS"); err != nil {
		t.Error(err)
	}
}

func TestServerStartTwicePanics(t *testing.T) {
	s := Server(t)
	defer func() {
		if recover() == nil {
			t.Error("Start of a running server did not panic")
		}
	}()
	s.Start()
}

func TestEvents(t *testing.T) {
	s := Server(t)
	s.Events(t, 9000) // more than two batches
	stream := s.Events(t, 1500)
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.State.Msgs != 10500 || info.Config.Storage != jetstream.FileStorage || info.Config.Retention != jetstream.LimitsPolicy {
		t.Errorf("%d messages, %v, %v", info.State.Msgs, info.Config.Storage, info.Config.Retention)
	}
	for _, seq := range []uint64{1, 4000, 4001, 9000, 9001, 10500} {
		msg, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatalf("message %d: %v", seq, err)
		}
		if number := strconv.FormatUint(seq-1, 10); string(msg.Data) != number || msg.Subject != "events."+number {
			t.Errorf("message %d is %q on %s", seq, msg.Data, msg.Subject)
		}
	}
}

func TestEventsFailsWithWords(t *testing.T) {
	s := Server(t)
	s.Stream(t, jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"events.x"}})
	if said := failure(t, func(t testing.TB) { s.Events(t, 1) }); !strings.Contains(said, "making stream EVENTS") {
		t.Errorf("it said %q", said)
	}
}

func TestWaitInfo(t *testing.T) {
	s := Server(t)
	s.Events(t, 3)
	c := s.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "d"})
	go func() {
		if msg, err := c.Next(); err == nil {
			_ = msg.Ack()
		}
	}()
	info := s.WaitInfo(t, "EVENTS", "d", 5*time.Second, "the ack floor to reach 1",
		func(i *jetstream.ConsumerInfo) bool { return i.AckFloor.Stream == 1 })
	if info.NumPending != 2 {
		t.Errorf("pending %d, want 2", info.NumPending)
	}
}

func TestWaitInfoFailsWithWords(t *testing.T) {
	s := Server(t)
	s.Events(t, 7)
	c := s.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "d"})
	if _, err := c.Next(); err != nil {
		t.Fatal(err)
	}
	never := func(*jetstream.ConsumerInfo) bool { return false }
	said := failure(t, func(t testing.TB) { s.WaitInfo(t, "EVENTS", "d", 50*time.Millisecond, "a miracle", never) })
	for _, word := range []string{"EVENTS/d", "50ms", "waiting for a miracle", "ack floor 0", "ack pending 1", "redelivered 0", "pending 6"} {
		if !strings.Contains(said, word) {
			t.Errorf("%q is missing in %q", word, said)
		}
	}
	said = failure(t, func(t testing.TB) { s.WaitInfo(t, "EVENTS", "nobody", 50*time.Millisecond, "a miracle", never) })
	if !strings.Contains(said, "never seen") || !strings.Contains(said, "consumer not found") {
		t.Errorf("a consumer that is missing: %q", said)
	}
	said = failure(t, func(t testing.TB) { s.Info(t, "EVENTS", "nobody") })
	if !strings.Contains(said, "EVENTS/nobody") || !strings.Contains(said, "consumer not found") {
		t.Errorf("Info of a consumer that is missing: %q", said)
	}
}

// What is asked while the server is away is answered when it is back.
func TestHelpersOutliveARestart(t *testing.T) {
	s := Server(t)
	s.Events(t, 3)
	s.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "d"})
	s.Stop()
	go func() {
		<-time.After(300 * time.Millisecond)
		s.Start()
	}()
	if info := s.Info(t, "EVENTS", "d"); info.NumPending != 3 {
		t.Errorf("pending %d, want 3", info.NumPending)
	}
}

func TestAskingStopsAtARealError(t *testing.T) {
	calls := 0
	err := asking(t, func(context.Context) error { calls++; return jetstream.ErrConsumerNotFound })
	if calls != 1 || !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("%d calls, %v", calls, err)
	}
}
