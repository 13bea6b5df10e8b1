package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/nats-io/nats.go/jetstream"
)

// Trial publishes messages to a crew of workers while things break, then lets the crew finish, and checks what came of it. The stream must exist; the
// consumer is made by the first worker, if not before.
type Trial struct {
	JS               jetstream.JetStream // of a connection that reconnects for ever: publishes, looks, listens
	Stream, Consumer string
	DeadLetters      string // the stream of the dead letters, to be looked at in the end; "" for none

	Child   Child // the worker. It needs a Journal, and its program has to use it: Journal.Wrap, at the least
	Workers int   // 0 is 2
	// Exited judges how a worker ended that was told to: see Crew.Exited.
	Exited func(code int, took time.Duration) error

	Ledger   *Ledger                  // publishes
	Messages int                      // at least; 0 is 1000
	Backlog  int                      // messages that may wait for the workers: so that faults meet work. 0 is 300
	Faults   func(crew *Crew) []Fault // what breaks
	Times    int                      // each fault happens at least as often; publishing goes on until then. 0 is 2
	For      time.Duration            // and for at least as long

	Waiting time.Duration // see Evidence

	Seed  uint64        // of the schedule; 0: by the clock
	Limit time.Duration // for all of it; 0 is 2 minutes
	Log   func(format string, args ...any)

	published atomic.Int64
}

// Test runs a trial, logs its report, and fails the test for each invariant that does not hold.
func (tr *Trial) Test(t testing.TB, invariants ...Invariant) Report {
	t.Helper()
	if tr.Log == nil {
		tr.Log = t.Logf
	}
	report, err := tr.Run(t.Context())
	if err != nil {
		t.Errorf("%v\n%s", err, report)
	}
	t.Logf("\n%s", report)
	report.Require(t, invariants...)
	return report
}

// Run runs a trial. An error says why it did not end well; the report is of what was seen until then. No process is left behind.
func (tr *Trial) Run(ctx context.Context) (Report, error) {
	if tr.Child.Journal == nil || tr.Ledger == nil || tr.JS == nil {
		return Report{}, errors.New("fault: a Trial needs JS, Ledger and Child.Journal")
	}
	if tr.Seed == 0 {
		tr.Seed = uint64(time.Now().UnixNano())
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(tr.Limit, 2*time.Minute), errors.New("fault: the trial's limit has passed"))
	defer cancel()
	tap, err := OpenTap(ctx, tr.JS.Conn(), tr.Stream, tr.Consumer)
	if err != nil {
		return Report{}, err
	}
	defer tap.Close()
	floor := WatchFloor(ctx, tr.JS, tr.Stream, tr.Consumer)
	defer floor.Close()
	crew, err := NewCrew(cmp.Or(tr.Workers, 2), tr.Child)
	if err != nil {
		return Report{}, err
	}
	defer crew.Kill()
	crew.Exited = tr.Exited

	counts, err := tr.breakThings(ctx, crew, floor)
	if err == nil {
		err = tr.settled(ctx, floor)
	}
	if err == nil {
		err = crew.Stop()
	}
	evidence := Evidence{Consumer: tr.Consumer, Waiting: tr.Waiting, Ledger: tr.Ledger.Entries(), Floor: floor.Samples(), Wire: tap.Settlements()}
	var failed error
	evidence.Events, failed = tr.Child.Journal.Events()
	err = errors.Join(err, failed)
	if tr.DeadLetters != "" {
		evidence.Letters, failed = ReadLetters(context.WithoutCancel(ctx), tr.JS, tr.DeadLetters, tr.Stream, tr.Consumer)
		err = errors.Join(err, failed)
	}
	report := Check(evidence)
	report.Faults, report.Seed = counts, tr.Seed
	return report, err
}

// breakThings publishes, and breaks things meanwhile, until there were enough of both.
func (tr *Trial) breakThings(ctx context.Context, crew *Crew, floor *Floor) (Counts, error) {
	var faults []Fault
	if tr.Faults != nil {
		faults = tr.Faults(crew)
	}
	publishing, stop := context.WithCancelCause(ctx)
	var enough atomic.Bool
	ended := make(chan error, 1)
	go func() { ended <- tr.publish(publishing, floor, &enough) }()
	schedule := Schedule{Seed: tr.Seed, Log: tr.Log, Journal: tr.Child.Journal, Faults: faults}
	began := time.Now()
	counts, err := schedule.Run(ctx, func(counts Counts) (bool, error) {
		for _, f := range faults {
			if counts[f.Name] < cmp.Or(tr.Times, 2) {
				return false, nil
			}
		}
		if tr.published.Load() >= int64(cmp.Or(tr.Messages, 1000)) && time.Since(began) >= tr.For {
			enough.Store(true)
		}
		select {
		case err := <-ended:
			ended <- err
			return true, err
		default:
			return false, nil
		}
	})
	stop(err)
	return counts, errors.Join(err, <-ended)
}

// publish publishes a few messages at a time, as long as the workers keep up with them, until it is enough.
func (tr *Trial) publish(ctx context.Context, floor *Floor, enough *atomic.Bool) error {
	const few = 50 // at a time
	for !enough.Load() {
		backlog := tr.Ledger.Confirmed()
		if s := floor.Last(); !s.At.IsZero() {
			backlog = int(s.Pending) + s.AckPending
		}
		if backlog > cmp.Or(tr.Backlog, 300) {
			rest(ctx, 5*time.Millisecond)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			continue
		}
		if err := tr.Ledger.Publish(ctx, few); err != nil {
			return err
		}
		tr.published.Add(few)
	}
	return nil
}

// settled waits until the server has nothing that is not settled.
func (tr *Trial) settled(ctx context.Context, floor *Floor) error {
	from := time.Now()
	for ctx.Err() == nil {
		if s := floor.Last(); s.At.After(from) && s.Pending == 0 && s.AckPending == 0 {
			return nil
		}
		rest(ctx, 20*time.Millisecond)
	}
	s := floor.Last()
	return fmt.Errorf("%w: not all is settled: ack floor %d, ack pending %d, redelivered %d, pending %d, delivered %d",
		context.Cause(ctx), s.Floor, s.AckPending, s.Redelivered, s.Pending, s.Delivered)
}

// ReadLetters reads the dead letters of a consumer, from their stream.
func ReadLetters(ctx context.Context, js jetstream.JetStream, name, stream, consumer string) ([]*deadletter.Letter, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	store, err := deadletter.Open(ctx, js.Conn(), name, "")
	if err != nil {
		return nil, fmt.Errorf("fault: reading the dead letters: %w", err)
	}
	var all []*deadletter.Letter
	for l, err := range store.List(ctx, deadletter.Filter{Stream: stream, Consumer: consumer}) {
		if err != nil {
			return nil, fmt.Errorf("fault: reading the dead letters: %w", err)
		}
		all = append(all, l)
	}
	return all, nil
}
