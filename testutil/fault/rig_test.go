package fault_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/testutil/fault"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	seed     = flag.Uint64("fault.seed", 1, "seed of the schedules; 0: by the clock")
	messages = flag.Int("fault.messages", 0, "messages of a schedule, at least; 0: few")
	times    = flag.Int("fault.times", 0, "how often each fault happens, at least; 0: a few times")
	long     = flag.Duration("fault.for", 0, "how long a schedule goes on, at least")
)

// The consumer of all tests.
const (
	stream   = "EVENTS"
	consumer = "D"
	slots    = 4
	ackWait  = 4 * time.Second
)

func TestMain(m *testing.M) {
	fault.Main(m, fault.Programs{"worker": workerProgram, "sleeper": sleeperProgram, "nester": nesterProgram})
}

// workerProgram is a worker on the consumer. Its handler takes WORK; every FAIL_EVERY-th message can't be handled, ever, and every
// RETRY_EVERY-th fails at its first attempt.
func workerProgram() {
	journal := fault.ChildJournal()
	work, _ := time.ParseDuration(os.Getenv("WORK"))
	failEvery, retryEvery := number("FAIL_EVERY"), number("RETRY_EVERY")
	h := journal.Wrap(ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		select {
		case <-time.After(work):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		i, err := strconv.ParseUint(string(m.Data), 10, 64)
		switch {
		case err != nil:
			return ackfloor.Permanent(err)
		case retryEvery > 0 && i%retryEvery == 0 && m.Attempt == 1:
			return errors.New("not now")
		case failEvery > 0 && i%failEvery == 0:
			return ackfloor.Permanent(errors.New("it can't be handled"))
		}
		return nil
	}))
	shutdown.Main(shutdown.Part{Name: "worker", Run: func(ctx context.Context) error {
		cfg, err := worker.FromEnv("")
		if err != nil {
			return err
		}
		if cfg.Logger, err = worker.NewLogger(cfg); err != nil {
			return err
		}
		cfg.Connection.Logger = cfg.Logger
		if os.Getenv("KEYS") != "" {
			cfg.Key = fault.Key
		}
		nc, err := worker.Connect(ctx, cfg.Connection)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		defer nc.Close()
		r, err := worker.New(nc, cfg, h)
		if err != nil {
			return err
		}
		r.OnSettled(func(s worker.Settled) { journal.Settled(s.Sequence, s.Kind, s.Confirmed) })
		sampling, stop := context.WithCancel(context.WithoutCancel(ctx))
		sampled := make(chan error, 1)
		go func() { sampled <- journal.Sample(sampling, time.Second, func() int { return len(r.Held()) }) }()
		err = r.Run(ctx)
		stop()
		return errors.Join(err, <-sampled)
	}})
}

func number(variable string) uint64 {
	n, _ := strconv.ParseUint(os.Getenv(variable), 10, 64)
	return n
}

// access is what the servers of package testutil have in common.
type access interface {
	URL() string
	Stream(t testing.TB, cfg jetstream.StreamConfig) jetstream.Stream
	Consumer(t testing.TB, stream string, cfg jetstream.ConsumerConfig) jetstream.Consumer
	JetStream(t testing.TB, opts ...nats.Option) jetstream.JetStream
}

// trial makes the stream and the consumer and a trial on them.
func trial(t *testing.T, s access, replicas int, env ...string) *fault.Trial {
	t.Helper()
	s.Stream(t, jetstream.StreamConfig{Name: stream, Subjects: []string{"events.>"}, Replicas: replicas})
	s.Consumer(t, stream, jetstream.ConsumerConfig{Durable: consumer, AckWait: ackWait, MaxDeliver: -1})
	js := s.JetStream(t)
	env = append([]string{"NATS_URL=" + s.URL(), "WORKER_STREAM=" + stream, "WORKER_CONSUMER=" + consumer, "WORKER_ACK_WAIT=" + ackWait.String(),
		fmt.Sprint("WORKER_CONCURRENCY=", slots), "WORKER_LOG_LEVEL=warn", "WORK=5ms"}, env...)
	tr := &fault.Trial{JS: js, Stream: stream, Consumer: consumer, DeadLetters: stream + "_DLQ", Seed: *seed, Messages: *messages, Times: *times,
		Limit: 90*time.Second + 2**long,
		Child: fault.Child{Name: "worker", Journal: fault.NewJournal(t), Env: env}, Ledger: &fault.Ledger{JS: js, Subject: "events", Keys: 16}, For: *long}
	t.Cleanup(func() {
		if t.Failed() {
			keep(t, tr.Child.Journal)
		}
	})
	return tr
}

// keep copies a journal to where it outlives the test, with go test -artifacts.
func keep(t *testing.T, j *fault.Journal) {
	t.Helper()
	text, err := os.ReadFile(j.Path())
	if err == nil {
		err = os.WriteFile(filepath.Join(t.ArtifactDir(), "journal"), text, 0o644)
	}
	if err != nil {
		t.Logf("the journal can't be kept: %v", err)
	}
}
