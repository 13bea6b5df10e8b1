package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// flakyKV is a bucket whose reads and writes can be made to fail, and its writes to take long.
type flakyKV struct {
	jetstream.KeyValue
	failGets, failPuts atomic.Int32 // how many of the next fail
	putDelay           atomic.Int64
	puts               atomic.Int32
}

var errBucket = errors.New("the bucket does not answer")

func (f *flakyKV) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if f.failGets.Add(-1) >= 0 {
		return nil, errBucket
	}
	return f.KeyValue.Get(ctx, key)
}

func (f *flakyKV) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	f.puts.Add(1)
	time.Sleep(time.Duration(f.putDelay.Load()))
	if f.failPuts.Add(-1) >= 0 {
		return 0, errBucket
	}
	return f.KeyValue.Put(ctx, key, value)
}

// flaky puts a flakyKV before the bucket of a worker that has nothing to handle yet.
func (w *running) flaky() *flakyKV {
	w.rig.t.Helper()
	w.replaying()
	kv := &flakyKV{KeyValue: w.records.kv}
	w.records.kv = kv
	return kv
}

// replaying waits until the worker pulls replays too. A server in a bubble must not be stopped before: one that makes a consumer while it shuts
// down blocks on a mutex, for which virtual time stands still.
func (w *running) replaying() *Runner {
	w.rig.t.Helper()
	w.working()
	for range 1000 {
		if child := w.replays.Load(); child != nil && child.Status().State == StateWorking {
			return child
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.rig.t.Fatal("after 10s it does not pull replays")
	return nil
}

// puts publishes n messages with one body.
func puts(t *testing.T, s rigServer, n int, body string) {
	t.Helper()
	js, err := jetstream.New(s.Conn(t))
	must(t, err)
	for range n {
		_, err := js.Publish(context.Background(), "events.x", []byte(body))
		must(t, err)
	}
}

// fetch takes n deliveries, as another worker would.
func (r *rig) fetch(stream, consumer string, n int) (out []jetstream.Msg) {
	r.t.Helper()
	cons, err := r.s.(*testutil.S).JetStream(r.t, r.admin...).Consumer(context.Background(), stream, consumer)
	must(r.t, err)
	batch, err := cons.Fetch(n)
	must(r.t, err)
	for m := range batch.Messages() {
		out = append(out, m)
	}
	if len(out) != n {
		r.t.Fatalf("%d of %d deliveries came: %v", len(out), n, batch.Error())
	}
	return out
}

// lost has the next n messages delivered twice, of which the records say nothing: with the third delivery, which comes after delay, they are suspects.
func (r *rig) lost(stream, consumer string, n int, delay time.Duration) {
	r.t.Helper()
	for _, wait := range []time.Duration{0, delay} {
		for _, m := range r.fetch(stream, consumer, n) {
			must(r.t, m.NakWithDelay(wait))
		}
	}
}

// suspects makes n messages of one body and the consumer, and has them lost.
func (r *rig) suspects(n int, body string) {
	r.t.Helper()
	r.s.Consumer(r.t, rigStream, wanted(r.cfg))
	puts(r.t, r.s, n, body)
	r.lost(rigStream, rigConsumer, n, 0)
}

// dies runs a worker whose process dies as soon as a handler has the message with this body. Where none comes within 20 s it is stopped, and false returned.
func (r *rig) dies(body string, change ...func(*Config)) (w *running, died bool) {
	r.t.Helper()
	die, release := make(chan struct{}, 100), make(chan struct{})
	w = r.start(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
		if string(m.Data) == body {
			die <- struct{}{}
			<-release // nothing of it gets out any more
			return errWork
		}
		time.Sleep(20 * time.Millisecond)
		return nil
	}), change...)
	select {
	case <-die:
		w.nc.Close()
		close(release)
		<-w.done
		claims.Clear()
		return w, true
	case <-time.After(20 * time.Second):
		close(release)
		w.ok(w.end())
		return w, false
	}
}

// lettersAtMost makes the stream of the dead letters, or changes it: with 1 it is full, with -1 it takes all.
func (r *rig) lettersAtMost(n int64) {
	r.t.Helper()
	js := r.s.(*testutil.S).JetStream(r.t, r.admin...)
	_, err := js.CreateOrUpdateStream(context.Background(), jetstream.StreamConfig{Name: rigStream + "_DLQ", Subjects: deadletter.Subjects(rigStream),
		Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1, AllowDirect: true, MaxAge: 720 * time.Hour, MaxMsgSize: -1, MaxMsgs: n})
	must(r.t, err)
	if n == 1 {
		_, _ = js.Publish(context.Background(), "dlq."+rigStream+".other.1", []byte("fills it")) // which is refused where it is full already
	}
}

// own lists the dead letters of the rig's consumer.
func (r *rig) own() (out []*deadletter.Letter) {
	r.t.Helper()
	for _, l := range r.letters() {
		if l.Consumer == rigConsumer {
			out = append(out, l)
		}
	}
	return out
}

// replay has dead letters handled again.
func (r *rig) replay(letters ...*deadletter.Letter) {
	r.t.Helper()
	box := r.store()
	for _, l := range letters {
		_, err := box.Replay(context.Background(), l)
		must(r.t, err)
	}
}

// alone fails the test where another handler ran while one of this sequence did.
func (r *rig) alone(seq uint64) {
	r.t.Helper()
	calls := r.calls.Calls()
	for i, a := range calls {
		for j, b := range calls {
			if i != j && a.Sequence == seq && a.Start.Before(b.End) && b.Start.Before(a.End) {
				r.t.Errorf("suspect %v ran beside %v", a, b)
				return
			}
		}
	}
}

// holds tells what a Runner still holds, "" where that is nothing.
func (r *Runner) holds() string {
	b := r.buf
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held.len()+b.running+b.kept+len(b.guests)+b.waiting+b.shy+b.aside.len()+b.queue.len() == 0 && b.lone == nil && b.pause == nil && !b.special {
		return ""
	}
	return fmt.Sprintf("held %d, running %d, kept %d, guests %d, waiting %d, aside %d, queued %d, alone %v, paused %v, special %v",
		b.held.len(), b.running, b.kept, len(b.guests), b.waiting, b.aside.len(), b.queue.len(), b.lone != nil, b.pause != nil, b.special)
}
