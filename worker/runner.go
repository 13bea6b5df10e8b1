package worker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/retry"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// Runner binds a handler to a durable consumer and works until its context ends. Make one with New, run it once.
type Runner struct {
	cfg     Config
	nc      *nats.Conn
	handler ackfloor.Handler
	policy  retry.Policy
	log     *zap.Logger
	clock   clock
	hook    func(point string) // tests only: called at the named points of the loops

	// Set while binding, before any other goroutine runs.
	values       context.Context // what handlers inherit of Run's context: its values
	ackWait      atomic.Int64    // nanoseconds; the consumer's, which may differ from the configured one, and change
	bound        boundConsumer
	subjects     subjects
	answers      string // inbox of settlements and stamps
	pullSubjects [pullsMax]string
	pullSub      *nats.Subscription
	lastSeq      uint64 // consumer sequence of the last delivery; the reader's

	buf        *buffer
	slab       slab // the reader's
	reader     reader
	conf       *confirmer
	pull       puller
	others     others
	pullAlarm  *alarm
	againAlarm *alarm
	leases     *alarm
	slots      sync.WaitGroup
	counters   counters
	books      *bookkeeper
	records    records
	keyPanics  repeats                // of Config.Key, which were logged
	batch      *batches               // nil: messages are handled one by one
	letters    *letters               // nil: no dead letters are written
	source     *Runner                // whose replays this one handles; nil: it handles a stream's messages
	replays    atomic.Pointer[Runner] // that handles ours
	parked     parked
	answersIn  atomic.Uint64 // answers that were begun to be taken
	answersOut atomic.Uint64 // and those that were
	failures   failures
	tally      *tally

	state   atomic.Int32 // a State
	stop    func(error)  // ends the work: Run drains
	failure atomic.Pointer[failure]
	cursor  atomic.Pointer[Cursor]
}

type failure struct{ err error }

// New makes a Runner. It checks cfg and the handler and reports everything that is wrong in one *ConfigError; a field that is zero
// means its default. The connection stays the caller's: Run does not close it. One connection may serve several Runners.
func New(nc *nats.Conn, cfg Config, h ackfloor.Handler) (*Runner, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, &ConfigError{Problems: []string{err.Error()}}
	}
	problems := cfg.problems()
	if isNil(h) {
		problems = append(problems, "the handler is nil: give the function or the value that handles a message")
	}
	if nc == nil {
		problems = append(problems, nilConnection)
	}
	if len(problems) > 0 {
		return nil, &ConfigError{Problems: problems}
	}
	log := cfg.Logger
	if log == nil {
		if log, err = NewLogger(cfg); err != nil {
			return nil, err
		}
	}
	for _, u := range cfg.unknown {
		log.Warn("a variable without meaning", zap.String("variable", u))
	}
	policy := cfg.Retry
	if policy == nil {
		schedule, err := retry.Parse(cfg.RetrySchedule)
		if err != nil {
			return nil, &ConfigError{Problems: []string{err.Error()}}
		}
		policy = schedule.Policy()
	}
	r := &Runner{
		cfg: cfg, nc: nc, handler: h, policy: policy, clock: clock{time.Now()},
		log: log.With(zap.String("stream", cfg.Stream), zap.String("consumer", cfg.Consumer)),
		buf: newBuffer(cfg.Concurrency, cfg.HandleTimeout), reader: newReader(cfg), pullAlarm: newAlarm(), againAlarm: newAlarm(), leases: newAlarm(),
		subjects: newSubjects(cfg),
	}
	if cfg.Gate != nil {
		r.handler = gated{h, cfg.Gate}
	}
	if cfg.Key != nil {
		r.buf.lanes = newLanes()
	}
	r.books, r.tally = newBookkeeper(), newTally()
	r.answers = nc.NewInbox()
	r.conf = newConfirmer(nc, r.clock, r.answers)
	r.pull.mu = &r.buf.mu
	r.others.alarm = newAlarm()
	r.pull.ended = make(chan struct{}, 1)
	r.pull.errors = make(map[string]uint64)
	return r, nil
}

// Conn is the connection that the Runner was made with.
func (r *Runner) Conn() *nats.Conn { return r.nc }

// Config is what the Runner was made with, its defaults filled in. It holds the connection's secrets: to show it, take Settings.
func (r *Runner) Config() Config { return r.cfg }

const nilConnection = "the connection is nil: make one with Connect"

func isNil(h ackfloor.Handler) bool {
	f, ok := h.(ackfloor.HandlerFunc)
	return h == nil || ok && f == nil
}

// Run works until ctx ends, then drains, and returns when nothing of it is left but handlers that ignore their context. It returns
// nil after a drain that handed nothing back while it ran, also when it ends by itself (Config.ExitWhenIdle); otherwise one of
// *ConfigError, *UnavailableError, *PermissionError, *DrainError, ErrConsumerDeleted, ErrBusy, ErrUsed, an error that wraps
// nats.ErrConnectionClosed, or the panic of one of its own loops.
func (r *Runner) Run(ctx context.Context) (err error) {
	if !r.to(StateBinding) {
		return ErrUsed
	}
	defer r.to(StateEnded)
	release, err := r.bind(ctx)
	if err != nil {
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			return nil // told to stop while it waited: nothing is held
		}
		return err
	}
	defer release()

	r.values = ackfloor.WithAckFloor(context.WithoutCancel(ctx), r.floor)
	work, stop := context.WithCancelCause(ctx) // ends: no new pull
	defer stop(nil)
	tend, end := context.WithCancel(r.values) // outlives the work: leases and settlements are tended through the drain
	defer end()
	r.stop = stop

	unsubscribe, err := r.subscribe()
	if err != nil {
		return err
	}
	defer r.listenBeside()()
	if r.bound.info.NumAckPending > 0 {
		r.shutLanes(r.clock.now())
	}
	loops := r.startLoops(work, tend)
	for range r.cfg.Concurrency {
		r.startSlot()
	}
	go r.read()
	r.to(StateWorking)
	r.firstPull()
	replays := make(chan error, 1)
	if r.letters != nil && r.source == nil {
		go func() {
			var err error
			r.guard("replays", func() { err = r.handleReplays(work) })
			replays <- err
		}()
	} else {
		replays <- nil
	}

	<-work.Done()
	err = r.drain(ctx, context.Cause(work))
	replayed := <-replays
	var broken *DrainError
	if err == nil && errors.As(replayed, &broken) { // other ends of it have been said, and are not ours
		err = broken
	}
	unsubscribe()
	r.endReading()
	end()
	loops.Wait()
	r.tendTally(never) // what is not summed up yet
	return err
}

// subscribe opens the two subscriptions: answers first, so that nothing is handled whose settlement could not be confirmed.
func (r *Runner) subscribe() (unsubscribe func(), err error) {
	pulls := r.nc.NewInbox()
	for i := range r.pullSubjects {
		r.pullSubjects[i] = pulls + "." + strconv.Itoa(i)
	}
	a, err := r.nc.Subscribe(r.answers+".>", r.guarded("answers", r.onAnswer))
	if err != nil {
		return nil, fmt.Errorf("worker: subscribe: %w", err)
	}
	r.pullSub, err = r.nc.ChanSubscribe(pulls+".*", r.reader.in)
	if err != nil {
		_ = a.Unsubscribe()
		return nil, fmt.Errorf("worker: subscribe: %w", err)
	}
	unsubscribe = func() {
		_ = r.pullSub.Unsubscribe()
		_ = a.Unsubscribe()
	}
	// What may arrive is bounded by what we ask for, in messages and bytes; the client's own limits would drop in silence.
	if err := a.SetPendingLimits(-1, -1); err != nil {
		unsubscribe()
		return nil, fmt.Errorf("worker: subscribe: %w", err)
	}
	// A denied subscription is reported beside; behind a flush it has been.
	flush, cancel := context.WithTimeout(r.values, requestWait)
	defer cancel()
	if r.nc.FlushWithContext(flush) == nil {
		if denied := r.denied(r.subjects.next); denied != nil && !denied.Publish {
			unsubscribe()
			return nil, denied
		}
	}
	return unsubscribe, nil
}
