package worker

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Streams of many kinds, through a stop of the worker and a restart of the server in the middle: each message is handled once, and the floor is at the last.
func TestStreamsOfManyKinds(t *testing.T) {
	base := jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}}
	with := func(change func(*jetstream.StreamConfig)) jetstream.StreamConfig { c := base; change(&c); return c }
	for name, cfg := range map[string]jetstream.StreamConfig{
		"a work queue":              with(func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }),
		"kept for interest":         with(func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy }),
		"that begins at 10^9":       with(func(c *jetstream.StreamConfig) { c.FirstSeq = 1_000_000_000 }),
		"that begins at 2^60":       with(func(c *jetstream.StreamConfig) { c.FirstSeq = 1 << 60 }),
		"without acks of publishes": with(func(c *jetstream.StreamConfig) { c.NoAck = true }),
		"compressed":                with(func(c *jetstream.StreamConfig) { c.Compression = jetstream.S2Compression }),
		"with gaps":                 base,
		"that changes subjects": with(func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "events.>", Destination: "moved.>"}
		}),
		"that may not be deleted": with(func(c *jetstream.StreamConfig) { c.DenyDelete, c.DenyPurge = true, true }),
		"one message a subject":   with(func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }),
		"with consumer limits":    with(func(c *jetstream.StreamConfig) { c.ConsumerLimits = jetstream.StreamConsumerLimits{MaxAckPending: 100} }),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				s.Stream(t, cfg)
				r := newRig(t, s, -1)
				s.Consumer(t, rigStream, wanted(r.cfg)) // interest begins with it
				nc := s.Conn(t)
				for i := range 60 {
					must(t, nc.Publish("events."+string(rune('A'+i)), []byte("x")))
				}
				must(t, nc.FlushWithContext(soonOver(t)))
				stream, err := s.JetStream(t).Stream(t.Context(), rigStream)
				must(t, err)
				first := max(1, cfg.FirstSeq)
				for r.stored() < first+59 { // read is not stored yet
					time.Sleep(10 * time.Millisecond)
				}
				n := 60
				if name == "with gaps" {
					for seq := range uint64(40) {
						if seq%4 != 0 {
							must(t, stream.DeleteMsg(t.Context(), seq+5))
						}
					}
					n = 30
				}
				time.Sleep(3 * time.Second)
				w := r.startOn(connectLikeWorker(t, s), testutil.Sleep(100*time.Millisecond), withLetters)
				r.calls.Wait(t, 8, 10*time.Second)
				w.ok(w.end())
				w = r.startOn(connectLikeWorker(t, s), testutil.Sleep(100*time.Millisecond), withLetters)
				r.calls.Wait(t, 16, 10*time.Second)
				w.replaying()
				s.Restart()
				r.floor(first+59, 10*time.Second)
				w.ok(w.end())
				if len(r.calls.Calls()) != n || r.calls.Distinct() != n {
					t.Errorf("%d calls for %d messages, want %d", len(r.calls.Calls()), r.calls.Distinct(), n)
				}
				info, err := stream.Info(t.Context())
				must(t, err)
				if kept := info.State.Msgs; (cfg.Retention != jetstream.LimitsPolicy) != (kept == 0) {
					t.Errorf("the stream has %d messages", kept)
				}
			})
		})
	}
}

// A durable on a mirror, or on a stream that is filled from another, has a cursor of its own there.
func TestMirrorsAndSources(t *testing.T) {
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"a mirror": func(c *jetstream.StreamConfig) { c.Mirror = &jetstream.StreamSource{Name: "ORIGIN"} },
		"a source": func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "ORIGIN"}} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				s.Stream(t, jetstream.StreamConfig{Name: "ORIGIN", Subjects: []string{"events.>"}})
				cfg := jetstream.StreamConfig{Name: rigStream}
				change(&cfg)
				s.Stream(t, cfg)
				r := newRig(t, s, -1)
				puts(t, s, 20, "x")
				w := r.start(testutil.ByData(map[string]ackfloor.Handler{"bad": permanent()}, testutil.Succeed()), withLetters)
				puts(t, s, 19, "x")
				puts(t, s, 1, "bad")
				r.awaitLetters(1, 10*time.Second)
				r.floor(40, 10*time.Second)
				w.ok(w.end())
				r.onceEach(40)
			})
		})
	}
}

// The server deletes a durable that nobody pulls from for its inactive_threshold. That is warned of before; and when it has happened, the start line says that the consumer is new.
func TestInactiveThreshold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 5)
		cfg := wanted(r.cfg)
		cfg.InactiveThreshold = 10 * time.Second
		s.Consumer(t, rigStream, cfg)
		w := r.start(testutil.Succeed())
		r.floor(5, time.Second)
		time.Sleep(time.Minute) // idle, but it pulls
		w.ok(w.end())
		if r.logged("has inactive_threshold 10s") != 1 || startLine(t, r)["consumer_is"] != "bound" {
			t.Errorf("not warned of: %v", r.logs.All())
		}
		time.Sleep(time.Minute)
		w = r.start(testutil.Succeed())
		r.calls.Wait(t, 10, 5*time.Second) // from the start again: the cursor was the server's to keep
		w.ok(w.end())
		if line := startLine(t, r); line["consumer_is"] != "created, starts at all" {
			t.Errorf("the start line says %v", line["consumer_is"])
		}
	})
}

// A consumer that the server won't make, for its limits, is refused with the server's words and without waiting.
func TestLimitsOfTheServerRefuseAConsumer(t *testing.T) {
	for name, tt := range map[string]struct {
		stream func(*jetstream.StreamConfig)
		words  string
	}{
		"too many consumers":      {func(c *jetstream.StreamConfig) { c.MaxConsumers = 1 }, "maximum consumers limit"},
		"max_ack_pending too big": {func(c *jetstream.StreamConfig) { c.ConsumerLimits.MaxAckPending = 10 }, "max ack pending"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				cfg := jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}}
				tt.stream(&cfg)
				s.Stream(t, cfg)
				s.Consumer(t, rigStream, jetstream.ConsumerConfig{Durable: "other", MaxAckPending: 5, AckPolicy: jetstream.AckExplicitPolicy})
				r := newRig(t, s, -1)
				problems := configProblems(t, r.start(testutil.Succeed()).wait(time.Second))
				if text := strings.ToLower(strings.Join(problems, " ")); !strings.Contains(text, tt.words) || !strings.Contains(text, "refuses to create consumer") {
					t.Errorf("it says %q", problems)
				}
			})
		})
	}
}

// A new release narrows the filter with BIND=update while a process of the old one works: the old one goes on with what the consumer says, nothing is handled twice, and the next start of the old one is refused.
func TestFilterIsNarrowedByANewRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 0)
		older := func(c *Config) { c.Filter = []string{"events.order", "events.page"} }
		newer := func(c *Config) { c.Filter, c.Bind = []string{"events.order"}, BindUpdate }
		post := func(n int) {
			for range n {
				publish(t, s, "events.order", "events.page")
			}
		}
		post(10)
		a := r.start(testutil.Sleep(20*time.Millisecond), older)
		r.floor(20, 5*time.Second)
		b := r.inAnotherProcess(testutil.Sleep(20*time.Millisecond), newer)
		post(10)
		time.Sleep(5 * time.Second)
		pages, twice := 0, 0
		for seq := uint64(1); seq <= 40; seq++ {
			n := r.calls.Count(seq)
			if twice += max(0, n-1); seq > 20 && seq%2 == 0 {
				pages += n
			} else if n == 0 {
				t.Errorf("order %d was not handled", seq)
			}
		}
		if pages > 0 || twice > 0 {
			t.Errorf("%d pages behind the update, %d handled twice", pages, twice)
		}
		if st := a.Status(); !st.Ready {
			t.Errorf("the old one is not ready: %s", st.Reason)
		}
		a.ok(a.end())
		b.ok(b.end())
		claims.Clear()
		a = r.start(testutil.Succeed(), older)
		time.Sleep(100 * time.Millisecond)
		a.ok(a.end()) // narrower than configured: it only reports
		if r.logged("drifted: filter_subjects is events.order") != 1 {
			t.Errorf("the drift is not reported: %v", r.logs.FilterMessageSnippet("drifted").All())
		}
	})
}

// A consumer is deleted while no worker runs, and a stream with it: what the next worker finds is told, and the stream made anew is handled from its first message.
func TestStreamMadeAnewBetweenWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 10)
		w := r.start(testutil.Succeed(), withLetters)
		r.floor(10, 5*time.Second)
		w.ok(w.end())
		startLine(t, r)
		must(t, s.JetStream(t).DeleteStream(t.Context(), rigStream))
		s.Events(t, 7)
		w = r.start(testutil.Succeed(), withLetters)
		r.floor(7, 5*time.Second)
		w.ok(w.end())
		if line := startLine(t, r); line["consumer_is"] != "created, starts at all" || len(r.calls.Calls()) != 17 {
			t.Errorf("%d calls, the start line says %v", len(r.calls.Calls()), line["consumer_is"])
		}
	})
}

// Messages that differ from all others: without a payload, with headers up to what the server takes, with a payload of its limit. Each comes as it is, once, also with small pulls.
func TestMessagesAtTheLimits(t *testing.T) {
	for _, pull := range []int{1024, 1 << 24} {
		synctest.Test(t, func(t *testing.T) {
			s := testutil.Bubble(t)
			r := newRig(t, s, 0)
			wide, long := nats.Header{}, nats.Header{"One": {strings.Repeat("v", 60000)}}
			for i := range 900 {
				wide["K"+strings.Repeat("k", i%60)] = append(wide["K"+strings.Repeat("k", i%60)], "value")
			}
			sizes := []int{0, 1, 1 << 20, 0, 1<<20 - 62000, 5, 0}
			for i, h := range []nats.Header{nil, wide, nil, long, long, {"Empty": {""}}, {"Nats-Msg-Id": {"same"}}} {
				put(t, s, "events.x", strings.Repeat("x", sizes[i]), h)
			}
			w := r.start(testutil.Succeed(), func(c *Config) { c.PullBytes = pull })
			r.floor(7, 10*time.Second)
			w.ok(w.end())
			r.onceEach(7)
			for _, c := range r.calls.Calls() {
				if len(c.Data) != sizes[c.Sequence-1] {
					t.Errorf("message %d came with %d bytes", c.Sequence, len(c.Data))
				}
			}
		})
	}
}

// Somebody takes the place of the consumer while the worker is away from the server: another of the same name is not the same.
func TestConsumerIsReplacedInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 20)
		w := r.startOn(connectLikeWorker(t, s), testutil.Sleep(time.Second))
		r.calls.WaitStarted(t, 4, time.Second)
		time.Sleep(100 * time.Millisecond) // or the other would be of the same moment
		id, err := w.nc.GetClientID()
		must(t, err)
		must(t, s.JetStream(t).DeleteConsumer(t.Context(), rigStream, rigConsumer))
		must(t, s.Server().DisconnectClientByID(id))
		s.Consumer(t, rigStream, wanted(r.cfg))
		if err := w.wait(5 * time.Second); !errors.Is(err, ErrConsumerDeleted) {
			t.Errorf("Run returned %v", err)
		}
		if n := s.Info(t, rigStream, rigConsumer).AckFloor.Stream; n != 0 {
			t.Errorf("the other consumer's floor is at %d", n)
		}
	})
}
