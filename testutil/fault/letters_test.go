package fault_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/testutil/fault"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A message that can't be handled has one letter in the end, wherever on the way there its worker dies: the worker is killed as soon as a step
// shows, and up to a few milliseconds later.
func TestOneLetterAtAnyPointOfDeath(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds nats-server")
	}
	const n, limit = 400, 90 * time.Second
	s := testutil.ServerProcess(t)
	s.Stream(t, jetstream.StreamConfig{Name: stream, Subjects: []string{"events.>"}})
	s.Consumer(t, stream, jetstream.ConsumerConfig{Durable: consumer, AckWait: time.Second, MaxDeliver: -1})
	js := s.JetStream(t)
	ledger := &fault.Ledger{JS: js, Subject: "events"}
	if err := ledger.Publish(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	journal := fault.NewJournal(t)
	child := fault.Child{Name: "worker", Journal: journal, Env: []string{"NATS_URL=" + s.URL(), "WORKER_STREAM=" + stream, "WORKER_CONSUMER=" + consumer,
		"WORKER_ACK_WAIT=1s", "WORKER_CONCURRENCY=4", "WORKER_LOG_LEVEL=error", "FAIL_EVERY=1", "RETRY_EVERY=1", "WORKER_RETRY=20ms", "WORK=1ms"}}
	steps := watchSteps(t, js.Conn())
	crew := fault.StartCrew(t, 1, child)
	kill := func(step string) fault.Fault {
		f := crew.KillWorker(10 * time.Millisecond)
		do := f.Do
		f.Name, f.Of = "death at: "+step, crew
		f.Do = func(ctx context.Context, draw *rand.Rand) error {
			late := time.Duration(draw.IntN(3000)) * time.Microsecond
			steps.forget(step)
			select {
			case <-steps[step]:
			case <-time.After(3 * time.Second): // nothing is left to do, or it is a step of which there are few
				return fault.ErrMissed
			case <-ctx.Done():
				return fault.ErrMissed
			}
			<-time.After(late)
			return do(ctx, draw)
		}
		return f
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	schedule := fault.Schedule{Seed: *seed, Log: t.Logf, Journal: journal, Faults: []fault.Fault{kill("record"), kill("letter"), kill("term")}}
	counts, err := schedule.Run(ctx, func(c fault.Counts) (bool, error) {
		return c["death at: record"] >= 3 && c["death at: letter"] >= 3 && c["death at: term"] >= 3, nil
	})
	t.Logf("%v", counts)
	if err != nil {
		t.Errorf("%v: the steps were not met: %v", err, counts)
	}
	s.WaitInfo(t, stream, consumer, limit, "all to be given up", func(i *jetstream.ConsumerInfo) bool { return i.NumPending == 0 && i.NumAckPending == 0 })
	if err := crew.Stop(); err != nil {
		t.Error(err)
	}
	letters, err := fault.ReadLetters(t.Context(), js, stream+"_DLQ", stream, consumer)
	if err != nil {
		t.Fatal(err)
	}
	events, err := journal.Events()
	if err != nil {
		t.Fatal(err)
	}
	report := fault.Check(fault.Evidence{Consumer: consumer, Events: events, Ledger: ledger.Entries(), Letters: letters})
	t.Logf("\n%s", report)
	report.Require(t, fault.NoSkip, fault.NothingUnexpected, fault.LettersOnce, fault.Slots(slots))
	if len(letters) != n || report.Handled != 0 {
		t.Errorf("%d letters of %d messages, %d handled", len(letters), n, report.Handled)
	}
}

// steps tell that something was seen on the wire.
type steps map[string]chan struct{}

func (s steps) forget(step string) {
	select {
	case <-s[step]:
	default:
	}
}

// watchSteps listens for what a worker publishes when it gives a message up.
func watchSteps(t *testing.T, nc *nats.Conn) steps {
	t.Helper()
	all := steps{}
	for step, subject := range map[string]string{"record": "$KV.*.>", "letter": "dlq." + stream + "." + consumer + ".>", "term": "$JS.ACK.>"} {
		seen := make(chan struct{}, 1)
		all[step] = seen
		sub, err := nc.Subscribe(subject, func(m *nats.Msg) {
			if step == "term" && !strings.HasPrefix(string(m.Data), "+TERM") {
				return
			}
			select {
			case seen <- struct{}{}:
			default:
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	if err := nc.FlushTimeout(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	return all
}
