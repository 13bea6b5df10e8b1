package worker

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Whatever a message's headers and payload are, it ends in the handler or in the dead letters as it was published, and a replay of the letter is
// the message again.
func FuzzAnyMessage(f *testing.F) {
	f.Add("Key", "value", "Key", "another", []byte(`{"a":1}`), false)
	f.Add("Nats-TTL", "1s", "nats-rollup", "all", []byte("x"), true)
	f.Add("Nats-Expected-Stream", "OTHER", "Ackfloor-Sequence", "7", []byte{}, true)
	f.Add("with space", "a", "Traceparent", "00-1-2-01", []byte{0xff, 0}, true)
	f.Add("Key", " blank ", "", "empty", []byte("\r\n"), true)
	s := testutil.Server(f)
	s.Stream(f, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}, AllowMsgTTL: true})
	nc := s.Conn(f)
	js, err := jetstream.New(nc)
	if err != nil {
		f.Fatal(err)
	}
	seen := make(chan *ackfloor.Message, 16)
	r, err := New(s.Conn(f), Config{Stream: rigStream, Consumer: rigConsumer, LogLevel: "error", Concurrency: 4}, ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
		if m.Subject == "events.bad" && m.Header.Get(deadletter.HeaderReplays) == "" {
			return ackfloor.Permanent(errWork)
		}
		seen <- m
		return nil
	}))
	if err != nil {
		f.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	f.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 string, data []byte, bad bool) {
		m := &nats.Msg{Subject: "events.good", Data: data, Header: nats.Header{}}
		if bad {
			m.Subject = "events.bad"
		}
		m.Header[k1] = append(m.Header[k1], v1)
		m.Header[k2] = append(m.Header[k2], v2)
		publish, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		ack, err := js.PublishMsg(publish, m)
		if err != nil || ack.Duplicate || ack.Stream != rigStream {
			t.Skip() // not a message that the server takes
		}
		var stored *jetstream.RawStreamMsg
		stream, err := js.Stream(publish, rigStream)
		must(t, err)
		if stored, err = stream.GetMsg(publish, ack.Sequence); err != nil {
			t.Skip() // it took it, and acted on its headers
		}
		if bad {
			store, err := deadletter.Open(publish, nc, rigStream+"_DLQ", "")
			must(t, err)
			var letter *deadletter.Letter
			for letter == nil && publish.Err() == nil {
				for l := range store.List(publish, deadletter.Filter{}) {
					if l != nil && l.MessageSequence == ack.Sequence {
						letter = l
					}
				}
			}
			if letter == nil {
				t.Fatalf("no letter of %d: %+v", ack.Sequence, m)
			}
			same(t, "the letter", letter.Header, letter.Data, stored)
			if _, err := store.Replay(publish, letter); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case got := <-seen:
			delete(got.Header, deadletter.HeaderReplays)
			if got.Sequence != ack.Sequence || !got.Published.Equal(stored.Time) {
				t.Errorf("the handler got %d of %v, published was %d at %v", got.Sequence, got.Published, ack.Sequence, stored.Time)
			}
			same(t, "the handler's message", got.Header, got.Data, stored)
		case <-publish.Done():
			t.Fatalf("nothing came of %d: %+v", ack.Sequence, m)
		}
	})
}

func same(t *testing.T, what string, h nats.Header, data []byte, stored *jetstream.RawStreamMsg) {
	t.Helper()
	if !slices.Equal(data, stored.Data) {
		t.Errorf("%s: the payload is %q, stored was %q", what, data, stored.Data)
	}
	for k, vs := range stored.Header {
		if !slices.Equal(h[k], vs) {
			t.Errorf("%s: %q is %q, stored was %q", what, k, h[k], vs)
		}
	}
	if len(h) != len(stored.Header) {
		t.Errorf("%s: its headers are %v, stored were %v", what, h, stored.Header)
	}
}
