package network_test

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/testutil/fault"
	"github.com/ackfloor/ackfloor/testutil/fault/network"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	seed = flag.Uint64("fault.seed", 1, "seed of the schedule; 0: by the clock")
	long = flag.Duration("fault.for", 0, "how long the schedule goes on, at least")
)

func TestMain(m *testing.M) { fault.Main(m, fault.Programs{"worker": workerProgram}) }

func workerProgram() {
	journal := fault.ChildJournal()
	h := journal.Wrap(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
		time.Sleep(2 * time.Millisecond)
		return nil
	}))
	worker.Main(h, func(ctx context.Context, r *worker.Runner) error {
		r.OnSettled(func(s worker.Settled) { journal.Settled(s.Sequence, s.Kind, s.Confirmed) })
		return journal.Sample(ctx, time.Second, func() int { return len(r.Held()) })
	})
}

// Two workers behind a bad network. Go on for as long as you like, with a seed of your own, in the folder testutil/fault/network:
//
//	go test . -run TestWorkersBehindABadNetwork -v -fault.seed 0 -fault.for 2m
func TestWorkersBehindABadNetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds nats-server")
	}
	const slots = 4
	s := testutil.ServerProcess(t)
	s.Stream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}})
	s.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "D", AckWait: 5 * time.Second, MaxDeliver: -1})
	p := network.New(t, s.URL())
	js := s.JetStream(t)
	tr := &fault.Trial{JS: js, Stream: "EVENTS", Consumer: "D", Seed: *seed, For: *long, Times: 1, Limit: time.Minute + 2**long, Waiting: 2 * time.Second,
		Ledger: &fault.Ledger{JS: js, Subject: "events"},
		Child: fault.Child{Name: "worker", Journal: fault.NewJournal(t), Env: []string{"NATS_URL=" + p.URL(), "WORKER_STREAM=EVENTS", "WORKER_CONSUMER=D",
			"WORKER_ACK_WAIT=5s", "WORKER_CONCURRENCY=4", "WORKER_LOG_LEVEL=warn"}},
		Faults: func(*fault.Crew) []fault.Fault {
			const every, lasts = 300 * time.Millisecond, 200 * time.Millisecond
			return []fault.Fault{
				p.Fault("cut", every, lasts, p.Cut),
				p.Fault("refused", every, lasts, p.Down),
				p.Fault("black hole", every, lasts, p.BlackHole),
				p.Fault("half-open, to the server", every, lasts, func() { p.HalfOpen(network.ToServer) }),
				p.Fault("half-open, to the client", every, lasts, func() { p.HalfOpen(network.ToClient) }),
				p.Fault("latency", every, lasts, func() { p.Latency(50*time.Millisecond, 20*time.Millisecond) }),
				p.Fault("slow", every, lasts, func() { p.Slow(50) }),
				p.Fault("reset in mid-frame, to the server", every, lasts, func() { p.ResetMidFrame(4321, network.ToServer) }),
				p.Fault("reset in mid-frame, to the client", every, lasts, func() { p.ResetMidFrame(4321, network.ToClient) }),
			}
		}}
	tr.Test(t, fault.NoSkip, fault.NothingUnexpected, fault.NothingConfirmedAgain, fault.FloorKept, fault.NoEarlyAck, fault.OneVerdict, fault.Slots(slots),
		fault.Bounded(200, 256<<20), fault.Progress(15*time.Second))
}
