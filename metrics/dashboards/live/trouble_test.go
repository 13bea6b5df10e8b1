package live

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// provoked says in whose trouble each alert, quickened, has to fire.
var provoked = map[string]string{
	"QuickWorkersGone": "drains", "QuickNotAlive": "deleted", "QuickDisconnected": "held", "QuickNotReady": "unwritable", "QuickBlind": "held",
	"QuickDrainTooLong": "drains", "QuickPausedLong": "pauses", "QuickStuck": "parked", "QuickFloorUnmoved": "parked", "QuickFallsBehind": "slow",
	"QuickSlotsFull": "slow", "QuickMessagesOld": "slow", "QuickAckPendingNearLimit": "parked", "QuickHandlerHangs": "drains", "QuickDeadLetters": "letters",
	"QuickDeadLettersUnwritable": "unwritable", "QuickRedeliveries": "letters", "QuickHandlersFail": "letters", "QuickPanics": "letters",
	"QuickSettlementsUnconfirmed": "held", "QuickLeasesLost": "held",
}

// troubles are services of which each is in trouble of a kind, on a server of their own.
type troubles struct {
	nats     *testutil.S
	proxy    *testutil.Proxy // between the server and the service that is held
	services []*service
	by       map[string]*service
}

func newTroubles(t *testing.T) *troubles {
	t.Helper()
	nats := testutil.Server(t)
	nats.Events(t, 0)
	nats.Stream(t, jetstream.StreamConfig{Name: "LARGE", Subjects: []string{"large.>"}}) // whose dead letters are in a stream of their own, which is soon full
	x := &troubles{nats: nats, proxy: nats.Proxy(t), by: make(map[string]*service)}
	add := func(consumer string, env ...string) *service {
		s := newService(t, nats.URL(), consumer, env...)
		x.services = append(x.services, s)
		x.by[consumer] = s
		return s
	}
	add("letters", "WORKER_RETRY=2s")
	add("parked", "WORKER_RETRY=1m", "WORKER_MAX_ACK_PENDING=10", "WORKER_CONCURRENCY=2")
	add("slow", "WORKER_CONCURRENCY=1")
	add("pauses")
	add("drains", "WORKER_CONCURRENCY=2", "WORKER_HANDLE_TIMEOUT=1s", "WORKER_DRAIN_TIMEOUT=10s")
	add("unwritable", "WORKER_STREAM=LARGE", "WORKER_FILTER=large.unwritable", "WORKER_DEAD_LETTER_BYTES=1048576")
	held := add("held", "WORKER_CONCURRENCY=2", "WORKER_PREFETCH=20", "WORKER_ACK_WAIT=1s")
	held.env[0] = "NATS_URL=" + x.proxy.URL()
	add("deleted").kind = "embedded"
	return x
}

// begin starts them and gives them work.
func (x *troubles) begin(t *testing.T) {
	t.Helper()
	for _, s := range x.services {
		s.start(t)
	}
	js := x.nats.JetStream(t)
	publish := func(subject, body string, n int) {
		for range n {
			if _, err := js.Publish(t.Context(), subject, []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish("events.letters", "permanent", 2)
	publish("events.letters", "panic", 2)
	publish("events.letters", "fail", 40)
	publish("events.parked", "fail", 30)
	publish("events.slow", "300ms", 5)
	publish("events.pauses", "pause", 1)
	publish("events.drains", "hang", 4)
	publish("large.unwritable", "permanent "+strings.Repeat("x", 400<<10), 5)
	publish("events.held", "200ms", 60)
	publish("events.deleted", "1ms", 5)
	newLoad(t, x.nats, "events.slow", "events.held").fast()
}

// worsen does what has to be done to those that work.
func (x *troubles) worsen(t *testing.T) {
	t.Helper()
	x.proxy.Hold()
	time.AfterFunc(10*time.Second, x.proxy.Down)
	if err := x.nats.JetStream(t).DeleteConsumer(t.Context(), "EVENTS", "deleted"); err != nil {
		t.Error(err)
	}
	_ = x.by["drains"].cmd.Process.Signal(syscall.SIGTERM)
}

// load publishes on subjects, again and again, until the test ends.
type load struct {
	js       jetstream.JetStream
	subjects []string
	ctx      context.Context
	done     sync.WaitGroup
}

func newLoad(t *testing.T, s *testutil.S, subjects ...string) *load {
	t.Helper()
	l := &load{js: s.JetStream(t), subjects: subjects, ctx: t.Context()}
	t.Cleanup(l.done.Wait) // behind the end of the test's context
	return l
}

// fast publishes ten a second on each: messages of a few milliseconds, and now and then one that fails once.
func (l *load) fast() {
	l.done.Go(func() {
		for l.ctx.Err() == nil {
			for _, subject := range l.subjects {
				ctx, cancel := context.WithTimeout(l.ctx, 500*time.Millisecond)
				body := "3ms"
				if strings.HasSuffix(subject, ".slow") || strings.HasSuffix(subject, ".held") {
					body = "300ms"
				}
				_, _ = l.js.Publish(ctx, subject, []byte(body)) // fails while the server is away
				cancel()
			}
			select {
			case <-l.ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}
