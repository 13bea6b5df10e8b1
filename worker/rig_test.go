package worker

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// The rig of the scenarios: stream EVENTS, durable D, ack_wait 2 s, 5 attempts, max_ack_pending 100, numbered messages.
const (
	rigStream   = "EVENTS"
	rigConsumer = "D"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv("ACKFLOOR_TEST_CHILD"); kind != "" {
		child(kind)
		return
	}
	os.Exit(m.Run())
}

// rigServer is what the rig needs of a server: in process, in a bubble, a cluster or a process of its own.
type rigServer interface {
	Conn(t testing.TB, opts ...nats.Option) *nats.Conn
	Events(t testing.TB, n int) jetstream.Stream
	Consumer(t testing.TB, stream string, cfg jetstream.ConsumerConfig) jetstream.Consumer
	Info(t testing.TB, stream, consumer string) *jetstream.ConsumerInfo
	WaitInfo(t testing.TB, stream, consumer string, limit time.Duration, what string, ok func(*jetstream.ConsumerInfo) bool) *jetstream.ConsumerInfo
}

type rig struct {
	t     *testing.T
	s     rigServer
	calls testutil.Recorder
	cfg   Config
	admin []nats.Option // how the test itself logs in, where that is needed
	logs  *observer.ObservedLogs
}

// newRig makes EVENTS with n messages; the consumer is made by the first Runner. Dead letters and records are off: see withLetters.
func newRig(t *testing.T, s rigServer, n int) *rig {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	r := &rig{t: t, s: s, logs: logs}
	r.cfg = Config{Stream: rigStream, Consumer: rigConsumer, AckWait: 2 * time.Second, MaxAttempts: 5, MaxAckPending: 100, Concurrency: 4,
		RetrySchedule: "100ms", DrainTimeout: 10 * time.Second, StartupTimeout: 5 * time.Second, Logger: zap.New(core),
		DeadLetter: off, Records: off}
	t.Cleanup(func() {
		if t.Failed() && testing.Verbose() {
			r.dumpLogs()
		}
	})
	if n >= 0 {
		s.Events(t, n)
	}
	return r
}

// running is a Runner that runs.
type running struct {
	*Runner
	rig  *rig
	nc   *nats.Conn
	stop context.CancelFunc
	done chan struct{}
	err  error         // what Run returned, once done is closed
	took time.Duration // from stop to the end, set by wait
}

// start makes a Runner with a connection of its own and runs it. Everything that it handles is recorded in the rig.
func (r *rig) start(h ackfloor.Handler, change ...func(*Config)) *running {
	r.t.Helper()
	return r.startOn(r.s.Conn(r.t), h, change...)
}

func (r *rig) startOn(nc *nats.Conn, h ackfloor.Handler, change ...func(*Config)) *running {
	r.t.Helper()
	run := r.make(nc, h, change...)
	run.run()
	return run
}

func (r *rig) make(nc *nats.Conn, h ackfloor.Handler, change ...func(*Config)) *running {
	r.t.Helper()
	cfg := r.cfg
	for _, c := range change {
		c(&cfg)
	}
	build := inMode(r.calls.Wrap(h))
	if batch, ok := h.(batchRig); ok {
		build = func(nc *nats.Conn, c Config) (*Runner, error) { return NewBatch(nc, c, batch.h) }
	}
	runner, err := build(nc, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return &running{Runner: runner, rig: r, nc: nc, done: make(chan struct{})}
}

func (w *running) run() {
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	go func() {
		w.err = w.Runner.Run(ctx)
		close(w.done)
	}()
	w.rig.t.Cleanup(func() { // also of a test that failed half-way: nothing may be left in a bubble
		cancel()
		w.nc.Close()
		<-w.done
	})
}

// working waits until the Runner has bound its consumer.
func (w *running) working() {
	w.rig.t.Helper()
	for range 1000 {
		if w.Status().State == StateWorking {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.rig.t.Fatalf("it does not work after 10s: %+v", w.Status())
}

// end stops the Runner and returns what Run returned.
func (w *running) end() error {
	w.rig.t.Helper()
	w.stop()
	return w.wait(30 * time.Second)
}

// wait waits for Run to return.
func (w *running) wait(limit time.Duration) error {
	w.rig.t.Helper()
	began := time.Now()
	select {
	case <-w.done:
		w.took = time.Since(began)
		return w.err
	case <-time.After(limit):
		w.rig.t.Fatalf("Run has not returned within %v; status %+v", limit, w.Status())
		return nil
	}
}

// ok fails the test where a Runner ended with an error.
func (w *running) ok(err error) {
	w.rig.t.Helper()
	if err != nil {
		w.rig.t.Fatalf("Run returned %v", err)
	}
}

// floor waits until the ack floor is at seq with nothing pending at the server.
func (r *rig) floor(seq uint64, limit time.Duration) *jetstream.ConsumerInfo {
	r.t.Helper()
	return r.s.WaitInfo(r.t, rigStream, rigConsumer, limit, "the ack floor and nothing ack pending", func(i *jetstream.ConsumerInfo) bool {
		return i.AckFloor.Stream == seq && i.NumAckPending == 0
	})
}

// onceEach fails the test unless messages 1 to n were each handled once.
func (r *rig) onceEach(n int) {
	r.t.Helper()
	var missing, again []uint64
	times := map[uint64]int{}
	for _, seq := range r.calls.Sequences() {
		times[seq]++
	}
	for seq := uint64(1); seq <= uint64(n); seq++ {
		switch c := times[seq]; {
		case c == 0:
			missing = append(missing, seq)
		case c > 1:
			again = append(again, seq)
		}
	}
	if len(missing)+len(again) > 0 {
		r.t.Fatalf("of %d messages %d were not handled %v and %d more than once %v", n, len(missing), head(missing), len(again), head(again))
	}
}

func head(s []uint64) []uint64 { return s[:min(len(s), 20)] }

// logged counts the log lines whose message contains a text.
func (r *rig) logged(text string) int { return r.logs.FilterMessageSnippet(text).Len() }

// startTimes returns when each call for a sequence began, in order.
func (r *rig) startTimes(seq uint64) []time.Time {
	var out []time.Time
	for _, c := range r.calls.Calls() {
		if c.Sequence == seq {
			out = append(out, c.Start)
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// noLeaks checks at the end of the test, behind the server's own clean-up, that no goroutine is left.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// dumpLogs shows what was logged, in a test that failed.
func (r *rig) dumpLogs() {
	r.t.Helper()
	for _, e := range r.logs.All() {
		r.t.Logf("%s %s %v", e.Time.Format("15:04:05.000"), e.Message, e.ContextMap())
	}
}
