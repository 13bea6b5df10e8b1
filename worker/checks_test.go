package worker

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What a consumer, its stream and the configuration say of one another: refused where it can't work, warned of where it is unwise.
func TestReview(t *testing.T) {
	type (
		consumer = jetstream.ConsumerConfig
		stream   = jetstream.StreamConfig
	)
	tests := []struct {
		name    string
		change  func(*Config, *consumer, *stream)
		refused string
		warned  string
	}{
		{"nothing", func(*Config, *consumer, *stream) {}, "", ""},
		{"a push consumer", func(_ *Config, c *consumer, _ *stream) { c.DeliverSubject = "to.me" }, `push consumer (deliver_subject "to.me")`, ""},
		{"ack policy none", func(_ *Config, c *consumer, _ *stream) { c.AckPolicy = jetstream.AckNonePolicy }, "ack policy none", ""},
		{"ack policy all", func(_ *Config, c *consumer, _ *stream) { c.AckPolicy = jetstream.AckAllPolicy }, "ack policy all", ""},
		{"not durable", func(_ *Config, c *consumer, _ *stream) { c.Durable = "" }, "not durable", ""},
		{"priority groups", func(_ *Config, c *consumer, _ *stream) {
			c.PriorityPolicy, c.PriorityGroups = jetstream.PriorityPolicyPinned, []string{"g"}
		}, "is pinned (priority policy pinned_client, groups g)", ""},
		{"a lease too short", func(_ *Config, c *consumer, _ *stream) { c.AckWait = 50 * time.Millisecond }, "ack_wait of consumer", ""},
		{"max_bytes too small", func(_ *Config, c *consumer, _ *stream) { c.MaxRequestMaxBytes = 100 }, "max_bytes of consumer", ""},
		{"max_expires too short", func(_ *Config, c *consumer, _ *stream) { c.MaxRequestExpires = time.Millisecond }, "max_expires of consumer", "max_expires of consumer"},
		{"max_expires", func(_ *Config, c *consumer, _ *stream) { c.MaxRequestExpires = 500 * time.Millisecond }, "", "below PULL_EXPIRY (1s): that is used"},
		{"max_batch", func(_ *Config, c *consumer, _ *stream) { c.MaxRequestBatch = 3 }, "", "max_batch of consumer \"D\" is 3"},
		{"max_deliver", func(_ *Config, c *consumer, _ *stream) { c.MaxDeliver = 10 }, "", "max_deliver of consumer \"D\" is 10"},
		{"max_ack_pending below the slots", func(_ *Config, c *consumer, _ *stream) { c.MaxAckPending = 10 }, "", "below CONCURRENCY + PREFETCH (16 + 0)|failed messages that wait for their retry count against it"},
		{"max_ack_pending without room for retries", func(_ *Config, c *consumer, _ *stream) { c.MaxAckPending = 100 }, "", "failed messages that wait for their retry count against it, so 100 of them stop all others"},
		{"headers only", func(_ *Config, c *consumer, _ *stream) { c.HeadersOnly = true }, "", "headers only"},
		{"inactive_threshold", func(_ *Config, c *consumer, _ *stream) { c.InactiveThreshold = time.Hour }, "", "inactive_threshold 1h0m0s"},
		{"its state in memory", func(_ *Config, c *consumer, _ *stream) { c.MemoryStorage = true }, "", "keeps its state in memory"},
		{"a grace below the handle timeout", func(c *Config, _ *consumer, _ *stream) { c.DrainTimeout = time.Second }, "", "DRAIN_TIMEOUT (1s) is below HANDLE_TIMEOUT (5m0s)"},
		{"a retry without a delay", func(c *Config, _ *consumer, _ *stream) { c.RetrySchedule = "1us,1s" }, "", "RETRY (1us,1s) has a delay below 1ms"},
		{"a filter that the stream has nothing for", func(c *Config, h *consumer, s *stream) {
			s.Subjects, c.Filter = []string{"events.>"}, []string{"events.a", "evnets.b"}
			setFilters(h, c.Filter)
		}, "", `FILTER "evnets.b" matches no subject of stream "EVENTS" (events.>)`},
		{"a filter on a stream that takes from others", func(c *Config, h *consumer, s *stream) {
			s.Subjects, s.Sources, c.Filter = []string{"events.>"}, []*jetstream.StreamSource{{Name: "O"}}, []string{"orders.b"}
			setFilters(h, c.Filter)
		}, "", ""},
		{"a stream in memory", func(_ *Config, _ *consumer, s *stream) { s.Storage = jetstream.MemoryStorage }, "", `stream "EVENTS" is in memory`},
		{"a stream that forgets", func(_ *Config, _ *consumer, s *stream) { s.MaxMsgs = 1000 }, "", "discards its oldest messages"},
		{"a stream that refuses when full", func(_ *Config, _ *consumer, s *stream) { s.MaxMsgs, s.Discard = 1000, jetstream.DiscardNew }, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Config{Stream: rigStream, Consumer: rigConsumer}.withDefaults()
			if err != nil {
				t.Fatal(err)
			}
			have, s := wanted(c), stream{}
			have.MaxAckPending = 1000
			tt.change(&c, &have, &s)
			refused, warned := review(c, boundConsumer{info: &jetstream.ConsumerInfo{Config: have}, stream: &jetstream.StreamInfo{Config: s}})
			for _, list := range []struct {
				what string
				got  []string
				want string
			}{{"refused", refused, tt.refused}, {"warned", warned, tt.warned}} {
				var want []string
				if list.want != "" {
					want = strings.Split(list.want, "|")
				}
				if !slices.EqualFunc(list.got, want, strings.Contains) {
					t.Errorf("%s: %q, want %q", list.what, list.got, want)
				}
			}
		})
	}
}

// Everything that is wrong between a configuration and a consumer is one error too.
func TestReviewReportsEverythingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 1)
		s.Consumer(t, rigStream, jetstream.ConsumerConfig{Durable: rigConsumer, AckPolicy: jetstream.AckNonePolicy, DeliverSubject: "to.me", FilterSubject: "events.mail"})
		problems := configProblems(t, r.start(testutil.Succeed(), func(c *Config) { c.Filter = []string{"events.1"} }).wait(time.Second))
		for _, words := range []string{"push consumer", "ack policy none", "events.mail"} {
			mentioned(t, problems, words)
		}
	})
}

// A filter that is mistyped is no error for the server, and nothing would ever come: it is warned of.
func TestFilterThatMatchesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1)
		w := r.start(testutil.Succeed(), func(c *Config) { c.Filter = []string{"orders.>"} })
		time.Sleep(time.Second)
		w.ok(w.end())
		if r.logged(`FILTER "orders.>" matches no subject of stream "EVENTS" (events.>)`) != 1 {
			t.Errorf("not warned of: %v", r.logs.All())
		}
	})
}

// What the server itself refuses is told with its words, the hint that helps, and without waiting.
func TestServerRefusesConsumer(t *testing.T) {
	queue := jetstream.StreamConfig{Name: "JOBS", Subjects: []string{"jobs.>"}, Retention: jetstream.WorkQueuePolicy}
	tests := []struct {
		name   string
		change func(*Config)
		words  []string
	}{
		{"overlaps with another of the work queue", func(c *Config) { c.Stream, c.Filter = "JOBS", []string{"jobs.mail.>"} }, []string{"set FILTER to the ones that are free"}},
		{"a second without filter on a work queue", func(c *Config) { c.Stream = "JOBS" }, []string{"set FILTER"}},
		{"a work queue read from elsewhere", func(c *Config) { c.Stream, c.Start, c.Filter = "JOBS", "seq:3", []string{"jobs.free"} }, []string{"starts at all"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 1)
				s.Stream(t, queue)
				s.Consumer(t, "JOBS", jetstream.ConsumerConfig{Durable: "other", FilterSubject: "jobs.mail.*", AckPolicy: jetstream.AckExplicitPolicy})
				problems := configProblems(t, r.start(testutil.Succeed(), tt.change).wait(time.Second))
				mentioned(t, problems, append(tt.words, "the server refuses to create consumer", `"D"`, "code 10")...)
			})
		})
	}
}

// Pulls keep within the consumer's limits, and everything arrives; limits below one message's size are stepped over for it.
func TestConsumerLimitsAreKept(t *testing.T) {
	for name, change := range map[string]func(*jetstream.ConsumerConfig){
		"max_batch":   func(c *jetstream.ConsumerConfig) { c.MaxRequestBatch = 3 },
		"max_expires": func(c *jetstream.ConsumerConfig) { c.MaxRequestExpires = 200 * time.Millisecond },
		"max_bytes":   func(c *jetstream.ConsumerConfig) { c.MaxRequestMaxBytes = 2048 },
		"max_waiting": func(c *jetstream.ConsumerConfig) { c.MaxWaiting = 1 },
		"all": func(c *jetstream.ConsumerConfig) {
			c.MaxRequestBatch, c.MaxRequestExpires, c.MaxRequestMaxBytes, c.MaxWaiting = 1, 200*time.Millisecond, 20<<10, 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 50)
				cfg := wanted(r.cfg)
				change(&cfg)
				s.Consumer(t, rigStream, cfg)
				if _, err := s.JetStream(t).Publish(t.Context(), "events.big", make([]byte, 10<<10)); err != nil {
					t.Fatal(err)
				}
				s.Events(t, 49)
				began := time.Now()
				w := r.start(testutil.Sleep(5 * time.Millisecond))
				r.floor(100, 10*time.Second)
				if d := time.Since(began); d > time.Second {
					t.Errorf("it took %v", d)
				}
				w.ok(w.end())
				r.onceEach(100)
				if e := w.Status().Counts.PullErrors; e["limit"]+e["max_waiting"] > 0 {
					t.Errorf("pulls went above the limits: %v", e)
				}
			})
		})
	}
}

// A message larger than a pull's bytes is fetched alone: nothing stalls, no other is left behind, and no pull is left open, of which there is
// a limited number and for which a stop would wait.
func TestMessagesLargerThanPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		js := s.JetStream(t)
		for i := range n { // large ones first, and in a row; small ones between
			if _, err := js.Publish(t.Context(), "events.x", bytes.Repeat([]byte{'x'}, max(0, 3-i%4)*5<<10)); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			if want := max(0, 3-int(m.Sequence-1)%4) * 5 << 10; len(m.Data) != want {
				return fmt.Errorf("%d bytes came, want %d", len(m.Data), want)
			}
			return nil
		}), func(c *Config) { c.PullBytes = 1024 })
		r.floor(n, 5*time.Second)
		if d := time.Since(began); d > time.Second {
			t.Errorf("it took %v", d)
		}
		w.ok(w.end())
		if w.took > 1200*time.Millisecond {
			t.Errorf("it took %v to stop", w.took)
		}
		r.onceEach(n)
		if c := w.Status().Counts; c.PullErrors["too_large"] == 0 || c.PullErrors["lost"] > 0 || c.Retried+c.Terminated > 0 {
			t.Errorf("counted %+v", c)
		}
	})
}

// An empty payload is a message, and so is one without headers; headers come as they were sent.
func TestOddMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		js := s.JetStream(t)
		for _, m := range []*nats.Msg{{Subject: "events.a"}, {Subject: "events.b", Data: []byte("x")}, {Subject: "events.c", Header: nats.Header{"k": {"v"}}}, {Subject: "events.d", Header: nats.Header{"X": {"1", "2"}}, Data: []byte("z")}} {
			if _, err := js.PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		w := r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
			got = append(got, fmt.Sprintf("%s %q %v %s", m.Subject, m.Data, m.Header, m.ID()))
			return nil
		}), func(c *Config) { c.Concurrency = 1 })
		r.floor(4, time.Second)
		w.ok(w.end())
		want := []string{`events.a "" map[] EVENTS:1`, `events.b "x" map[] EVENTS:2`, `events.c "" map[k:[v]] EVENTS:3`, `events.d "z" map[X:[1 2]] EVENTS:4`}
		if !slices.Equal(got, want) {
			t.Errorf("handled %q, want %q", got, want)
		}
	})
}
