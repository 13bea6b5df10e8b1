package limit_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/limit"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

var errDown = errors.New("the provider is down")

// rig is stream EVENTS on a real server, workers on its durable D with ack_wait 2 s, and what they handled.
type rig struct {
	t     *testing.T
	s     *testutil.S
	calls testutil.Recorder
}

func newRig(t *testing.T, n int) *rig {
	t.Helper()
	r := &rig{t: t, s: testutil.Bubble(t)}
	r.s.Events(t, n)
	return r
}

// running is a worker that runs.
type running struct {
	*worker.Runner
	rig  *rig
	stop context.CancelFunc
	done chan error
}

// start runs a worker of four slots behind a gate. What passes the gate is recorded.
func (r *rig) start(g worker.Gate, h ackfloor.Handler, change ...func(*worker.Config)) *running {
	r.t.Helper()
	return r.startOn("D", g, h, change...)
}

func (r *rig) startOn(consumer string, g worker.Gate, h ackfloor.Handler, change ...func(*worker.Config)) *running {
	r.t.Helper()
	cfg := worker.Config{Stream: "EVENTS", Consumer: consumer, AckWait: 2 * time.Second, MaxAttempts: 5, Concurrency: 4, HandleTimeout: time.Second,
		RetrySchedule: "100ms", DrainTimeout: 5 * time.Second, DeadLetter: "off", Records: "off", Logger: zap.NewNop(), Gate: g}
	for _, c := range change {
		c(&cfg)
	}
	w, err := worker.New(r.s.Conn(r.t), cfg, r.calls.Wrap(h))
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	run := &running{w, r, stop, make(chan error, 1)}
	go func() { run.done <- w.Run(ctx); close(run.done) }()
	r.t.Cleanup(func() { stop(); <-run.done })
	return run
}

// records has attempts counted, where a test asks for them.
func records(c *worker.Config) { c.Records = "" }

// end stops it and returns what Run returned, and how long that took.
func (w *running) end() (time.Duration, error) {
	w.rig.t.Helper()
	began := time.Now()
	w.stop()
	select {
	case err := <-w.done:
		return time.Since(began), err
	case <-time.After(time.Minute):
		w.rig.t.Fatalf("Run has not returned: %+v", w.Status())
		return 0, nil
	}
}

// ended stops it, without anything handed back.
func (w *running) ended() {
	w.rig.t.Helper()
	if _, err := w.end(); err != nil {
		w.rig.t.Errorf("Run returned %v", err)
	}
}

// settled waits until everything up to seq is settled. It looks once a second: what passes in virtual time costs real time by what is done in it.
func (r *rig) settled(consumer string, seq uint64, within time.Duration) *jetstream.ConsumerInfo {
	r.t.Helper()
	for end := time.Now().Add(within); ; {
		time.Sleep(time.Second)
		i := r.s.Info(r.t, "EVENTS", consumer)
		if i.AckFloor.Stream == seq && i.NumAckPending == 0 {
			return i
		}
		if time.Now().After(end) {
			r.t.Fatalf("not settled after %v: %+v", within, i)
		}
	}
}

// once fails the test unless n messages were delivered once and handled once: so no lease was lost while they waited.
func (r *rig) once(i *jetstream.ConsumerInfo, n int) {
	r.t.Helper()
	seqs := r.calls.Sequences()
	slices.Sort(seqs)
	if len(seqs) != n || len(slices.Compact(seqs)) != n || i.Delivered.Consumer != uint64(n) {
		r.t.Errorf("%d messages: %d deliveries, %d calls with %d of them", n, i.Delivered.Consumer, len(r.calls.Calls()), r.calls.Distinct())
	}
}

// starts are the times at which handlers were called, in order.
func (r *rig) starts() (out []time.Time) {
	for _, c := range r.calls.Calls() {
		out = append(out, c.Start)
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// holds fails the test where more began than burst + perSecond × time, in any stretch of time at all; to a nanosecond an event, which is what the limiter rounds by.
func holds(t *testing.T, starts []time.Time, perSecond float64, burst int) {
	t.Helper()
	for i := range starts {
		for j := i + burst; j < len(starts); j++ {
			took := starts[j].Sub(starts[i]) + time.Duration(j-i)
			if n := j - i + 1; float64(n) > float64(burst)+perSecond*took.Seconds()+1e-6 {
				t.Fatalf("%d began within %v, with %v a second and a burst of %d", n, took, perSecond, burst)
			}
		}
	}
}

// within tells how many began from a moment on, for d.
func within(starts []time.Time, from time.Time, d time.Duration) (n int) {
	for _, s := range starts {
		if !s.Before(from) && s.Before(from.Add(d)) {
			n++
		}
	}
	return n
}

func must[G any](t *testing.T) func(G, error) G {
	return func(g G, err error) G {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
}

var _ worker.Gate = limit.Gate(nil) // they are one
