package once

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

var errWork = errors.New("the work failed")

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// service is a process: a KV with a connection of its own, and what it reported.
type service struct {
	*KV
	mu     sync.Mutex
	doubts []Doubt
	errs   []error
}

func newService(t *testing.T, js jetstream.JetStream, cfg KVConfig) *service {
	t.Helper()
	s := &service{}
	cfg.OnDoubt = func(d Doubt) { s.mu.Lock(); defer s.mu.Unlock(); s.doubts = append(s.doubts, d) }
	cfg.OnError = func(err error) { s.mu.Lock(); defer s.mu.Unlock(); s.errs = append(s.errs, err) }
	var err error
	s.KV, err = NewKV(js, cfg)
	must(t, err)
	return s
}

// flaky puts a bucket before the real one that can be told to fail.
func (s *service) flaky(t *testing.T) *flakyKV {
	t.Helper()
	kv, err := s.bucket(t.Context(), "TEST")
	must(t, err)
	f := &flakyKV{KeyValue: kv}
	kv = f
	s.found.Store(&kv)
	return f
}

// flakyKV is a bucket some of whose writes are not done, or are done without an answer.
type flakyKV struct {
	jetstream.KeyValue
	creates, updates, gets atomic.Int32 // how many of the next are not done
	unheard                atomic.Int32 // how many of the next writes are done, but not answered
}

func (f *flakyKV) Create(ctx context.Context, key string, value []byte, opts ...jetstream.KVCreateOpt) (uint64, error) {
	if f.creates.Add(-1) >= 0 {
		return 0, context.DeadlineExceeded
	}
	return f.heard(f.KeyValue.Create(ctx, key, value, opts...))
}

func (f *flakyKV) Update(ctx context.Context, key string, value []byte, last uint64) (uint64, error) {
	if f.updates.Add(-1) >= 0 {
		return 0, context.DeadlineExceeded
	}
	return f.heard(f.KeyValue.Update(ctx, key, value, last))
}

func (f *flakyKV) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if f.gets.Add(-1) >= 0 {
		return nil, context.DeadlineExceeded
	}
	return f.KeyValue.Get(ctx, key)
}

func (f *flakyKV) heard(rev uint64, err error) (uint64, error) {
	if err == nil && f.unheard.Add(-1) >= 0 {
		return 0, context.DeadlineExceeded
	}
	return rev, err
}

// attempt is one call, as a worker makes it: with a deadline, and with panics and Goexit turned into errors.
func attempt(t *testing.T, h ackfloor.Handler, m *ackfloor.Message, limit time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, ackfloor.ErrHandleTimeout)
	defer cancel()
	return call(ctx, h, m)
}

func call(ctx context.Context, h ackfloor.Handler, m *ackfloor.Message) (err error) {
	ended := make(chan struct{})
	go func() {
		err = &ackfloor.PanicError{Goexit: true}
		defer close(ended)
		defer func() {
			if p := recover(); p != nil {
				err = &ackfloor.PanicError{Value: p}
			}
		}()
		err = h.Handle(ctx, m)
	}()
	<-ended
	return err
}

// dead is a handler whose process dies in it: what is behind it never runs. Its goroutine is left until the test ends.
func dead(t *testing.T, s *service, m *ackfloor.Message, effect func()) {
	t.Helper()
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	began := make(chan struct{})
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), handleTimeout)
		defer cancel()
		kv, err := s.bucket(ctx, m.Stream)
		c := &claim{kv: kv, m: m, key: markKey(m), call: newCall()}
		if err == nil {
			_, err = s.take(ctx, c)
		}
		if err != nil {
			t.Error(err)
		}
		effect()
		close(began)
		<-ended
		runtime.Goexit()
	}()
	<-began
}

const handleTimeout = 30 * time.Second

// work runs a worker on the stream EVENTS until its floor is there, and returns what it called.
func work(t *testing.T, s *testutil.S, h ackfloor.Handler, floor uint64, change ...func(*worker.Config)) *testutil.Recorder {
	t.Helper()
	var calls testutil.Recorder
	cfg := worker.Config{Stream: "EVENTS", Consumer: "D", AckWait: 2 * time.Second, RetrySchedule: "100ms", Concurrency: 4, HandleTimeout: handleTimeout,
		Logger: zap.NewNop()}
	for _, c := range change {
		c(&cfg)
	}
	nc := s.Conn(t)
	r, err := worker.New(nc, cfg, ackfloor.Chain(h, calls.Wrap))
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	s.WaitInfo(t, "EVENTS", "D", time.Minute, "everything settled", func(i *jetstream.ConsumerInfo) bool {
		return i.AckFloor.Stream == floor && i.NumAckPending == 0
	})
	stop()
	must(t, <-ended)
	nc.Close()
	return &calls
}
