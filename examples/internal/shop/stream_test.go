package shop

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

func silent(string, ...any) {}

func TestPrepareByManyAtOnceSeedsOnce(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	var all sync.WaitGroup
	for range 5 {
		js := s.JetStream(t)
		all.Go(func() {
			if err := prepare(t.Context(), js, 10*time.Second, silent); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	js := s.JetStream(t)
	stream, err := js.Stream(t.Context(), streamName)
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != uint64(len(seeds)) {
		t.Fatalf("%d messages in the stream, want %d", n, len(seeds))
	}
	for i, e := range seeds {
		m, err := stream.GetMsg(t.Context(), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject != e.subject || string(m.Data) != e.data {
			t.Errorf("message %d is %s %s, want %s %s", i+1, m.Subject, m.Data, e.subject, e.data)
		}
	}
}

func TestPreparePutsNothingInAStreamThatWasEmptied(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	stream := s.Events(t, 1)
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := prepare(t.Context(), s.JetStream(t), 10*time.Second, silent); err != nil {
		t.Fatal(err)
	}
	if info, err := stream.Info(t.Context()); err != nil || info.State.LastSeq != 1 {
		t.Fatalf("last sequence %d, %v; want 1", info.State.LastSeq, err)
	}
}

func TestPrepareRefusesOtherSubjects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		there jetstream.StreamConfig
		want  string
	}{
		"the stream with others":   {jetstream.StreamConfig{Name: streamName, Subjects: []string{"orders.>"}}, `"orders.>"`},
		"another stream with ours": {jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"events.order_placed"}}, "another stream"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testutil.Server(t)
			s.Stream(t, c.there)
			err := prepare(t.Context(), s.JetStream(t), 10*time.Second, silent)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), streamSubject) {
				t.Fatalf("got %v, want an error with %q and %q", err, c.want, streamSubject)
			}
			if code := shutdown.ExitCode(err); code != shutdown.ExitConfig {
				t.Errorf("exit code %d, want %d", code, shutdown.ExitConfig)
			}
		})
	}
}

func TestPrepareTakesAStreamThatHoldsMore(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	s.Stream(t, jetstream.StreamConfig{Name: streamName, Subjects: []string{"orders.>", streamSubject}})
	if err := prepare(t.Context(), s.JetStream(t), 10*time.Second, silent); err != nil {
		t.Fatal(err)
	}
}

func TestSeedsAreJSONUnderTheStreamsSubject(t *testing.T) {
	t.Parallel()
	for _, e := range seeds {
		if !json.Valid([]byte(e.data)) || !strings.HasPrefix(e.subject, strings.TrimSuffix(streamSubject, ">")) {
			t.Errorf("%s %s", e.subject, e.data)
		}
	}
}
