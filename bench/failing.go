package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/retry"
	"github.com/ackfloor/ackfloor/worker"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// This is the child's side of the mode failures: a handler that fails as planned, and writes down what it was called with.

const (
	maxAttempts = 3
	retryDelay  = 50 * time.Millisecond
	workTime    = 150 * time.Microsecond // of a handler that waits
	workBytes   = 128 << 10              // of one that hashes: about 100 µs
	stalledFor  = 30 * time.Second       // without a call: what has not come by then is lost
)

// fate is what is to become of a message.
type fate int

const (
	succeeds    fate = iota
	failsOnce        // then it succeeds
	failsTwice       // then it succeeds
	isPermanent      // one call, then a dead letter
	panics           // maxAttempts calls, then a dead letter
)

// fateOf spreads the fates over the sequences, as chance would and the same each time: 5 % fail once or twice, 1 % are permanent, 0.1 % panic.
func fateOf(seq uint64, failing bool) fate {
	if !failing {
		return succeeds
	}
	h := seq * 0x9e3779b97f4a7c15 // the golden ratio's bits: neighbours end far apart
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	switch p := h % 2000; {
	case p < 50:
		return failsOnce
	case p < 100:
		return failsTwice
	case p < 120:
		return isPermanent
	case p < 122:
		return panics
	}
	return succeeds
}

// good tells whether it ends with success, calls how often its handler is called.
func (f fate) good() bool { return f <= failsTwice }

func (f fate) calls() int { return [...]int{1, 2, 3, 1, maxAttempts}[f] }

// trial is one row of the table: what the handler does, and whether some of its calls fail.
type trial struct {
	work    string // one of works
	failing bool
	build   string // as in contestant
}

func (t trial) name() string {
	if t.failing {
		return t.work + "-failing"
	}
	return t.work + "-clean"
}

func (t trial) label() string { return contestant{name: t.name(), build: t.build}.label() }

// works are the handlers, by name.
var works = map[string]func(){
	"none": func() {},
	"wait": func() { time.Sleep(workTime) },
	"2ms":  func() { time.Sleep(2 * time.Millisecond) },
	"hash": func() { sha256.Sum256(block[:]) },
}

var block [workBytes]byte

func trialNamed(name string) (trial, error) {
	for work := range works {
		for _, t := range []trial{{work: work}, {work: work, failing: true}} {
			if t.name() == name {
				return t, nil
			}
		}
	}
	return trial{}, fmt.Errorf("there is no trial %q", name)
}

// ledger is the handler, and what it was called with: one place a message, by its sequence.
type ledger struct {
	trial  trial
	calls  []atomic.Int32
	done   []atomic.Int32 // calls that returned nil
	wrong  atomic.Int64   // calls whose Attempt was not their number
	first  atomic.Int64   // when the first call came, nanoseconds since 1970
	ended  atomic.Int64   // messages whose last call has come
	most   atomic.Int64   // when nine in ten had, likewise
	all    chan struct{}  // closed when all have
	failed error          // what a call fails with
}

const outOfRange = "index out of range [16] with length 16" // what a call panics with

func newLedger(t trial, n int) *ledger {
	return &ledger{trial: t, calls: make([]atomic.Int32, n), done: make([]atomic.Int32, n), all: make(chan struct{}), failed: errors.New("the database does not answer")}
}

// Handle does the work first, as a handler does that fails at its end.
func (l *ledger) Handle(_ context.Context, m *ackfloor.Message) error {
	if l.first.Load() == 0 {
		l.first.CompareAndSwap(0, time.Now().UnixNano())
	}
	i, f := m.Sequence-1, fateOf(m.Sequence, l.trial.failing)
	call := int(l.calls[i].Add(1))
	if m.Attempt != call {
		l.wrong.Add(1)
	}
	works[l.trial.work]()
	if call < f.calls() {
		if f == panics {
			panic(outOfRange)
		}
		return l.failed
	}
	n := int64(len(l.calls))
	switch l.ended.Add(1) {
	case mostOf(n):
		l.most.Store(time.Now().UnixNano())
	case n:
		defer close(l.all)
	}
	switch f {
	case panics:
		panic(outOfRange)
	case isPermanent:
		return ackfloor.Permanent(l.failed)
	}
	l.done[i].Add(1)
	return nil
}

// mostOf is nine in ten of n, and never all.
func mostOf(n int64) int64 { return n - max(1, n/10) }

// wait returns when every message had its last call, or when none has come for long.
func (l *ledger) wait(ctx context.Context) error {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	moved, last := time.Now(), int64(0)
	for {
		select {
		case <-l.all:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-look.C:
		}
		if n := l.ended.Load(); n != last {
			moved, last = time.Now(), n
		} else if time.Since(moved) > stalledFor {
			return nil
		}
	}
}

// handleFailing runs a worker until every message had its last call and done says that all is settled.
func handleFailing(ctx context.Context, o order, done func() error) (report, error) {
	t, err := trialNamed(o.name)
	if err != nil {
		return report{}, err
	}
	log, err := logNowhere()
	if err != nil {
		return report{}, err
	}
	l := newLedger(t, o.n)
	endProfiles, err := startProfiles(o)
	if err != nil {
		return report{}, err
	}
	before, workBefore := used(), workOf("self")
	r, stop, err := startWorker(ctx, o.target, worker.Config{MaxAttempts: maxAttempts, Retry: retry.Constant(retryDelay), Logger: log}, l)
	if err != nil {
		return report{}, err
	}
	if err := l.wait(ctx); err != nil {
		return report{}, err
	}
	if err := done(); err != nil {
		return report{}, err
	}
	rep := report{Usage: used().since(before), Work: workOf("self").since(workBefore), PeakRSS: peakRSS(),
		First: time.Unix(0, l.first.Load()), Most: time.Unix(0, l.most.Load())}
	if err := errors.Join(endProfiles(), stop()); err != nil {
		return report{}, err
	}
	rep.Counts, rep.WrongAttempts = r.Status().Counts, l.wrong.Load()
	rep.Calls, rep.Done = make([]byte, o.n), make([]byte, o.n)
	for i := range o.n {
		rep.Calls[i], rep.Done[i] = byte(min(l.calls[i].Load(), 255)), byte(min(l.done[i].Load(), 255))
		rep.Handled += int(l.done[i].Load())
	}
	return rep, nil
}

// logNowhere is the log that a worker writes by default, stacks of panics and all, but to the null device: a failure is a line.
func logNowhere() (*zap.Logger, error) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(null), zapcore.InfoLevel)), nil
}
