package testutil

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Limits on what the helpers wait for.
const (
	requestLimit = time.Second      // one request; an election leaves requests unanswered, so short and again
	answerLimit  = 10 * time.Second // a request with its repetitions
	publishLimit = time.Minute      // all messages of one Events
)

// Access is what S, C and P have in common: connections, streams, consumers and a look at a consumer's state.
type Access struct {
	dial     func(opts ...nats.Option) (*nats.Conn, error)
	replicas int // of the stream that Events makes

	mu    sync.Mutex
	admin *nats.Conn    // of the helpers; made by the first that needs it
	login []nats.Option // of that connection
}

// Login sets further options of the connection over which the helpers (Stream, Consumer, Events, Info …) work: call it before
// the first of them where the server wants a password. Conn and JetStream take theirs themselves.
func (a *Access) Login(opts ...nats.Option) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.login = opts
}

// Conn opens a connection, which is closed when the test ends. It reconnects for ever, every 50 ms; opts come after these
// defaults and may change them.
func (a *Access) Conn(t testing.TB, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := a.dial(append(connectDefaults(), opts...)...)
	if err != nil {
		t.Fatalf("testutil: connecting: %v", err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func connectDefaults() []nats.Option {
	return []nats.Option{
		nats.Name("testutil"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(50 * time.Millisecond),
		nats.ReconnectJitter(10*time.Millisecond, 10*time.Millisecond),
		nats.Timeout(5 * time.Second),
	}
}

// JetStream opens a connection as Conn does and returns its JetStream.
func (a *Access) JetStream(t testing.TB, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(a.Conn(t, opts...))
	if err != nil {
		t.Fatalf("testutil: JetStream: %v", err)
	}
	return js
}

// Stream creates the stream, or updates the one of that name, and returns it.
func (a *Access) Stream(t testing.TB, cfg jetstream.StreamConfig) jetstream.Stream {
	t.Helper()
	var stream jetstream.Stream
	a.ask(t, "making stream "+cfg.Name, func(ctx context.Context, js jetstream.JetStream) (err error) {
		stream, err = js.CreateOrUpdateStream(ctx, cfg)
		return err
	})
	return stream
}

// Consumer creates the durable consumer (cfg.Durable names it), or updates the one of that name, and returns it. Acks are
// explicit unless cfg says otherwise.
func (a *Access) Consumer(t testing.TB, stream string, cfg jetstream.ConsumerConfig) jetstream.Consumer {
	t.Helper()
	var consumer jetstream.Consumer
	a.ask(t, "making consumer "+stream+"/"+cfg.Durable, func(ctx context.Context, js jetstream.JetStream) (err error) {
		consumer, err = js.CreateOrUpdateConsumer(ctx, stream, cfg)
		return err
	})
	return consumer
}

// Events publishes n messages on the stream EVENTS, which it makes if need be: subjects "events.>", file storage, limits
// retention, as many replicas as the cluster has servers. Message i goes to the subject "events.<i>" with the body "<i>".
// Counting starts at 0 and goes on where the last call ended, so that i is the sequence less 1 as long as nobody else
// publishes. All n are stored when Events returns.
func (a *Access) Events(t testing.TB, n int) jetstream.Stream {
	t.Helper()
	stream := a.Stream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}, Replicas: a.replicas})
	first := int(stream.CachedInfo().State.LastSeq)

	// Few messages go one by one: nats.go 1.55 leaves a goroutine behind for ever when a publisher is cleaned up before
	// the goroutine of its first asynchronous publish has run (resetPendingAcksOnReconnect).
	if n <= few {
		for i := first; i < first+n; i++ {
			a.publish(t, "events."+strconv.Itoa(i), []byte(strconv.Itoa(i)))
		}
		return stream
	}
	const batch = 4000 // unanswered at once; jetstream stalls and then fails past its limit
	failed := make(chan error, 1)
	js, err := jetstream.New(a.connection(t), jetstream.WithPublishAsyncMaxPending(2*batch),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) {
			select {
			case failed <- fmt.Errorf("%s: %w", m.Subject, err):
			default:
			}
		}))
	if err != nil {
		t.Fatalf("testutil: JetStream: %v", err)
	}
	defer js.CleanupPublisher()
	ctx, cancel := within(t, publishLimit)
	defer cancel()
	for i := first; i < first+n; i++ {
		number := strconv.Itoa(i)
		if _, err := js.PublishAsync("events."+number, []byte(number)); err != nil {
			t.Fatalf("testutil: publishing event %d of %d: %v", i-first, n, err)
		}
		if (i+1-first)%batch != 0 && i+1 != first+n {
			continue
		}
		select {
		case <-js.PublishAsyncComplete():
		case <-ctx.Done():
			t.Fatalf("testutil: publishing %d events: %d of the first %d are not stored after %v",
				n, js.PublishAsyncPending(), i+1-first, publishLimit)
		}
		select {
		case err := <-failed:
			t.Fatalf("testutil: publishing %d events: %v", n, err)
		default:
		}
	}
	return stream
}

// few is how many messages Events publishes one by one.
const few = 500

// publish stores one message, and waits until it is.
func (a *Access) publish(t testing.TB, subject string, body []byte) {
	t.Helper()
	a.ask(t, "publishing "+subject, func(ctx context.Context, js jetstream.JetStream) error {
		_, err := js.Publish(ctx, subject, body)
		return err
	})
}

// probe calls f once, over a connection of its own. Where the server wants a login that dial does not have, that it answers is all that can be known here.
func (a *Access) probe(limit time.Duration, f func(ctx context.Context, js jetstream.JetStream) error) error {
	nc, err := a.dial(nats.Timeout(requestLimit))
	if errors.Is(err, nats.ErrAuthorization) {
		return nil
	}
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return f(ctx, js)
}

// ask calls f with the helpers' JetStream, again while the server does not answer.
func (a *Access) ask(t testing.TB, doing string, f func(ctx context.Context, js jetstream.JetStream) error) {
	t.Helper()
	js, err := jetstream.New(a.connection(t))
	if err != nil {
		t.Fatalf("testutil: JetStream: %v", err)
	}
	if err := asking(t, func(ctx context.Context) error { return f(ctx, js) }); err != nil {
		t.Fatalf("testutil: %s: %v", doing, err)
	}
}

// asking is ask without the words.
func asking(t testing.TB, f func(ctx context.Context) error) error {
	var err error
	poll(answerLimit, func() bool {
		ctx, cancel := within(t, requestLimit)
		defer cancel()
		err = f(ctx)
		return err == nil || !passing(err)
	})
	return err
}

// passing tells an error of a server that is starting or electing from one that stays.
func passing(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 503
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrConnectionReconnecting)
}

// connection is the one that the helpers share.
func (a *Access) connection(t testing.TB) *nats.Conn {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.admin == nil {
		opts := append(connectDefaults(), nats.Name("testutil helpers"), nats.RetryOnFailedConnect(true))
		nc, err := a.dial(append(opts, a.login...)...)
		if err != nil {
			t.Fatalf("testutil: connecting: %v", err)
		}
		a.admin = nc
	}
	return a.admin
}

// close closes the helpers' connection.
func (a *Access) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.admin != nil {
		a.admin.Close()
		a.admin = nil
	}
}
