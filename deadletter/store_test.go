package deadletter

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func sequences(letters []*Letter) []uint64 {
	var out []uint64
	for _, l := range letters {
		out = append(out, l.MessageSequence)
	}
	return out
}

func TestOpenMissing(t *testing.T) {
	s := testutil.Server(t)
	if _, err := Open(t.Context(), s.Conn(t), "ORDERS_DLQ", ""); !errors.Is(err, ErrNoStream) || !strings.Contains(err.Error(), "ORDERS_DLQ") {
		t.Fatalf("got %v", err)
	}
	if _, err := Open(t.Context(), s.Conn(t), "a.b", ""); err == nil {
		t.Fatal("a name with a dot was taken")
	}
}

// noDirect makes a stream that only its leader reads from.
func noDirect(c *jetstream.StreamConfig) { c.AllowDirect = false }

// Looking, with or without direct gets, changes nothing and leaves nothing behind.
func TestListChangesNothing(t *testing.T) {
	for name, change := range map[string]func(*jetstream.StreamConfig){"direct": func(*jetstream.StreamConfig) {}, "leader": noDirect} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, change)
			if got := r.list(Filter{}); got != nil {
				t.Fatalf("in an empty stream: %d", len(got))
			}
			for i := range 20 {
				r.write(sample(uint64(i)))
			}
			big := sample(20, func(l *Letter) { l.Data = random(1 << 20) })
			r.write(big)
			for _, l := range r.list(Filter{})[:5] {
				if _, err := r.s.Replay(r.ctx(), l); err != nil {
					t.Fatal(err)
				}
			}
			r.pullReplay()
			before, consumer := r.info(), r.Info(t, config.Name, ReplayConsumer("ORDERS", "inventory"))
			for range 2 {
				got := r.list(Filter{})
				if len(got) != 21 {
					t.Fatalf("%d letters", len(got))
				}
				for i, l := range got[:20] {
					same(t, l, sample(uint64(i)))
				}
				whole, err := r.s.Get(r.ctx(), got[20].Sequence)
				if err != nil {
					t.Fatal(err)
				}
				same(t, whole, big)
				for range r.s.List(r.ctx(), Filter{}) {
					break // early
				}
			}
			for _, f := range []Filter{{Stream: "NONE"}, {Consumer: "none"}, {Since: time.Now().Add(time.Hour)}, {Reason: "none"}, {State: "none"}} {
				if got := r.list(f); got != nil {
					t.Fatalf("%+v: %d", f, len(got))
				}
			}
			after, consumerAfter := r.info(), r.Info(t, config.Name, ReplayConsumer("ORDERS", "inventory"))
			if !reflect.DeepEqual(before.State, after.State) || after.State.Consumers != 1 {
				t.Fatalf("before %+v\nafter %+v", before.State, after.State)
			}
			if consumer.Delivered.Consumer != consumerAfter.Delivered.Consumer ||
				consumer.AckFloor.Stream != consumerAfter.AckFloor.Stream || consumer.NumPending != consumerAfter.NumPending {
				t.Fatalf("before %+v\nafter %+v", consumer, consumerAfter)
			}
		})
	}
}

func TestListFilters(t *testing.T) {
	r := newRig(t, func(c *jetstream.StreamConfig) { c.Subjects = []string{"dlq.>", "replay.>"} })
	r.write(sample(1))
	r.write(sample(2, func(l *Letter) { l.Consumer = "email" }))
	<-time.After(2 * time.Millisecond)
	middle := time.Now()
	<-time.After(2 * time.Millisecond)
	r.write(sample(3, func(l *Letter) { l.Stream = "EVENTS"; l.Subject = "events.a.b" }))
	r.write(sample(4, func(l *Letter) { l.Reason = ReasonPermanent; l.Error = "no such customer" }))
	all := r.list(Filter{})
	if _, err := r.s.Replay(r.ctx(), all[3]); err != nil {
		t.Fatal(err)
	}
	// What is no letter is shown, and can't be replayed.
	if _, err := r.js.Publish(r.ctx(), "dlq.ORDERS.inventory.9", []byte("by hand"), jetstream.WithMsgID("x")); err != nil {
		t.Fatal(err)
	}
	lies := nats.Header{"Nats-Subject": {"orders.new"}, "Nats-Sequence": {"77"}, "Nats-Time-Stamp": {"then"}, "Status": {"404"}}
	if _, err := r.js.PublishMsg(r.ctx(), &nats.Msg{Subject: "dlq.x", Header: lies}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		f    Filter
		want []uint64
	}{
		{Filter{}, []uint64{1, 2, 3, 4, 9, 0}}, {Filter{Stream: "ORDERS"}, []uint64{1, 2, 4, 9}}, {Filter{Consumer: "inventory"}, []uint64{1, 3, 4, 9}},
		{Filter{Stream: "ORDERS", Consumer: "email"}, []uint64{2}}, {Filter{Subject: "events.*.b"}, []uint64{3}}, {Filter{Subject: "orders.>"}, []uint64{1, 2, 4}},
		{Filter{Reason: ReasonPermanent}, []uint64{4}}, {Filter{Error: "such customer"}, []uint64{4}}, {Filter{State: StateReplaying}, []uint64{4}},
		{Filter{State: StateOpen, Stream: "ORDERS"}, []uint64{1, 2, 9}}, {Filter{Until: middle}, []uint64{1, 2}},
		{Filter{Since: middle, Consumer: "inventory", Reason: ReasonExhausted}, []uint64{3}},
		{Filter{Since: all[1].Stored, Until: all[2].Stored}, []uint64{2}},
	} {
		if got := sequences(r.list(c.f)); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %d, want %d", c.f, got, c.want)
		}
	}
	hand := r.list(Filter{})[4]
	if string(hand.Data) != "by hand" || hand.Stream != "ORDERS" || hand.Consumer != "inventory" || hand.Subject != "" {
		t.Errorf("by hand: %s", short(*hand))
	}
	for _, l := range r.list(Filter{})[4:] {
		if got, err := r.s.Get(r.ctx(), l.Sequence); err != nil || !slices.Equal(got.Data, l.Data) {
			t.Errorf("getting it: %v", err)
		}
		if _, err := r.s.Replay(r.ctx(), l); err == nil {
			t.Error("it was replayed")
		}
		if err := r.s.Remove(r.ctx(), l.Sequence); err != nil {
			t.Error(err)
		}
	}
	for _, f := range []Filter{{Stream: "a.b"}, {Consumer: ">"}, {Stream: "*"}} {
		for l, err := range r.s.List(r.ctx(), f) {
			if l != nil || err == nil {
				t.Errorf("%+v was taken", f)
			}
		}
		for l, err := range r.s.Watch(r.ctx(), f) {
			if l != nil || err == nil {
				t.Errorf("%+v was taken", f)
			}
		}
	}
}

func TestGetNothing(t *testing.T) {
	r := newRig(t)
	r.write(sample(1, func(l *Letter) { l.Data = random(1 << 20) }))
	if _, err := r.s.Replay(r.ctx(), r.list(Filter{})[0]); err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{0, 1 /* the rest */, 3 /* the replay */, 4, 99} {
		if l, err := r.s.Get(r.ctx(), seq); !errors.Is(err, ErrNotFound) || l != nil {
			t.Errorf("%d: %v, %v", seq, l, err)
		}
		if err := r.s.Remove(r.ctx(), seq); !errors.Is(err, ErrNotFound) {
			t.Errorf("removing %d: %v", seq, err)
		}
	}
	if got := r.subjects(); len(got) != 3 {
		t.Errorf("left: %q", got)
	}
}

// A letter goes from open to replaying to handled, or back to open with another sequence. One letter and the list say the same.
func TestStates(t *testing.T) {
	for name, change := range map[string]func(*jetstream.StreamConfig){"as made here": func(*jetstream.StreamConfig) {}, "leader": noDirect,
		"many a subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 }} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, change)
			r.write(sample(1))
			r.write(sample(2))
			check := func(want ...State) []*Letter {
				t.Helper()
				letters := r.list(Filter{})
				slices.SortFunc(letters, func(a, b *Letter) int { return int(a.MessageSequence) - int(b.MessageSequence) })
				var got []State
				for _, l := range letters {
					got = append(got, l.State)
					one, err := r.s.Get(r.ctx(), l.Sequence)
					if err != nil || one.State != l.State {
						t.Fatalf("the list says %q, one says %v %v", l.State, one, err)
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("states %q, want %q", got, want)
				}
				return letters
			}
			letters := check(StateOpen, StateOpen)
			for _, l := range letters {
				if _, err := r.s.Replay(r.ctx(), l); err != nil {
					t.Fatal(err)
				}
			}
			check(StateReplaying, StateReplaying) // without a consumer
			first := r.pullReplay()
			check(StateHandled, StateReplaying)
			second := r.pullReplay()
			if first.MessageSequence != 1 || second.MessageSequence != 2 || second.Replays != 1 || second.ReplayOf != 2 {
				t.Fatalf("replays %s %s", short(*first), short(*second))
			}
			check(StateHandled, StateHandled)
			r.write(second) // it failed again, and its letter was written before the replay was settled
			letters = check(StateHandled, StateOpen)
			if l := letters[1]; l.Replays != 1 || l.ReplayOf != 2 || l.Sequence <= 4 {
				t.Fatalf("the new letter: %s", short(*l))
			}
			if got, err := r.s.Replay(r.ctx(), sampleOf(second, 2)); err != nil || !got.Already {
				t.Fatalf("replaying the older one: %+v, %v", got, err)
			}
			if got, err := r.s.Replay(r.ctx(), letters[1]); err != nil || got.Already {
				t.Fatalf("replaying the newer one: %+v, %v", got, err)
			}
			check(StateHandled, StateReplaying)
			if got, err := r.s.Replay(r.ctx(), sampleOf(second, 2)); !errors.Is(err, ErrNotFound) {
				t.Fatalf("replaying the older one: %+v, %v", got, err)
			}
			if l := r.pullReplay(); l.Replays != 2 || l.ReplayOf != letters[1].Sequence {
				t.Fatalf("the second replay: %s", short(*l))
			}
			check(StateHandled, StateHandled)
		})
	}
}

// sampleOf is the letter seq, as somebody still holds it.
func sampleOf(l *Letter, seq uint64) *Letter {
	old := *l
	old.Sequence, old.at.kind, old.Replays, old.ReplayOf = seq, letter, 0, 0
	return &old
}

// However often and by however many a letter is replayed, it comes once.
func TestReplayOnce(t *testing.T) {
	r := newRig(t)
	want := sample(1, func(l *Letter) { l.Header = odd["rollup, any case"] })
	r.write(want)
	l := r.list(Filter{})[0]
	var all sync.WaitGroup
	results := make(chan ReplayResult, 60)
	for range 3 {
		s, err := Open(r.ctx(), r.Conn(t), config.Name, "")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			all.Go(func() {
				mine := l
				if i%2 == 0 {
					mine = &Letter{Sequence: l.Sequence} // all that somebody may know of it
				}
				got, err := s.Replay(r.ctx(), mine)
				if err != nil {
					t.Error(err)
				}
				results <- got
			})
		}
	}
	all.Wait()
	close(results)
	fresh := 0
	for got := range results {
		if !got.Already {
			fresh++
		}
		if got.Sequence != 2 {
			t.Errorf("the replay is %d", got.Sequence)
		}
	}
	if got := r.subjects(); fresh != 1 || !slices.Equal(got, []string{"dlq.ORDERS.inventory.1", "replay.ORDERS.inventory.1"}) {
		t.Fatalf("%d replays, stored: %q", fresh, got)
	}
	got := r.pullReplay()
	want.Replays, want.ReplayOf = 1, 1
	same(t, got, want)
	if got, err := r.s.Replay(r.ctx(), l); err != nil || !got.Already {
		t.Fatalf("after it was handled: %+v, %v", got, err)
	}

	// Removed with its replay, it can't be replayed by who still holds it.
	if err := r.s.Remove(r.ctx(), 1); err != nil {
		t.Fatal(err)
	}
	if got := r.subjects(); len(got) != 0 {
		t.Fatalf("left: %q", got)
	}
	if _, err := r.s.Replay(r.ctx(), l); !errors.Is(err, ErrNotFound) {
		t.Fatalf("after it was removed: %v", err)
	}
	if _, err := r.s.Replay(r.ctx(), &Letter{Sequence: 1}); !errors.Is(err, ErrNotFound) {
		t.Fatalf("after it was removed: %v", err)
	}
}

// A replay reaches the consumer that failed and no other.
func TestReplayReachesOneConsumer(t *testing.T) {
	r := newRig(t)
	for _, consumer := range []string{"inventory", "email", "inventory2"} {
		r.Consumer(t, config.Name, jetstream.ConsumerConfig{Durable: ReplayConsumer("ORDERS", consumer), FilterSubject: ReplayFilter("ORDERS", consumer)})
	}
	r.write(sample(1))
	if _, err := r.s.Replay(r.ctx(), r.list(Filter{})[0]); err != nil {
		t.Fatal(err)
	}
	r.WaitInfo(t, config.Name, ReplayConsumer("ORDERS", "inventory"), 5*time.Second, "one replay", func(i *jetstream.ConsumerInfo) bool { return i.NumPending == 1 })
	for _, consumer := range []string{"email", "inventory2"} {
		if n := r.Info(t, config.Name, ReplayConsumer("ORDERS", consumer)).NumPending; n != 0 {
			t.Errorf("%s has %d pending", consumer, n)
		}
	}
}

func TestReplayErrors(t *testing.T) {
	full := newRig(t, func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 })
	full.write(sample(1))
	if _, err := full.s.Replay(full.ctx(), full.list(Filter{})[0]); !errors.Is(err, ErrFull) {
		t.Errorf("full: %v", err)
	}
	none := newRig(t, func(c *jetstream.StreamConfig) { c.Subjects = []string{"dlq.>"} })
	none.write(sample(1))
	if _, err := none.s.Replay(none.ctx(), none.list(Filter{})[0]); !errors.Is(err, ErrNoStream) || !strings.Contains(err.Error(), "replay.ORDERS.inventory.1") {
		t.Errorf("no replays: %v", err)
	}
}

func TestReadReplayRefuses(t *testing.T) {
	r := newRig(t)
	r.write(sample(1))
	if _, err := r.s.Replay(r.ctx(), r.list(Filter{})[0]); err != nil {
		t.Fatal(err)
	}
	m, err := r.s.c.last(r.ctx(), "replay.ORDERS.inventory.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadReplay(m.subject, m.header, m.data); err != nil {
		t.Fatal(err)
	}
	for what, read := range map[string]func() (*Letter, error){
		"by hand":   func() (*Letter, error) { return ReadReplay(m.subject, nil, m.data) },
		"a letter":  func() (*Letter, error) { return ReadReplay("dlq.ORDERS.inventory.1", m.header, m.data) },
		"another's": func() (*Letter, error) { return ReadReplay("replay.ORDERS.email.1", m.header, m.data) },
		"no number": func() (*Letter, error) {
			h := clone(m.header)
			delete(h, hdrReplayOf)
			return ReadReplay(m.subject, h, m.data)
		},
	} {
		if l, err := read(); err == nil {
			t.Errorf("%s: %s", what, short(*l))
		}
	}
}

// A replay that is on its way survives the removal of its letter, and its second part too.
func TestRemoveWhileReplaying(t *testing.T) {
	r := newRig(t)
	want := sample(1, func(l *Letter) { l.Data = random(1 << 20) })
	r.write(want)
	l := r.list(Filter{})[0]
	if _, err := r.s.Replay(r.ctx(), l); err != nil {
		t.Fatal(err)
	}
	if err := r.s.Remove(r.ctx(), l.Sequence); err != nil {
		t.Fatal(err)
	}
	replay := r.pullReplay()
	if err := r.w.Complete(r.ctx(), replay); err != nil {
		t.Fatal(err)
	}
	want.Replays, want.ReplayOf = 1, l.Sequence
	same(t, replay, want)
	r.write(replay)
	got := r.list(Filter{})
	if len(got) != 1 || got[0].Replays != 1 {
		t.Fatalf("after it failed: %d letters", len(got))
	}
	if err := r.s.Remove(r.ctx(), got[0].Sequence); err != nil {
		t.Fatal(err)
	}
	if got := r.list(Filter{}); len(got) > 0 {
		t.Fatalf("%d letters", len(got))
	}
}

func TestRemoveDenied(t *testing.T) {
	r := newRig(t, func(c *jetstream.StreamConfig) { c.DenyDelete = true })
	r.write(sample(1))
	if err := r.s.Remove(r.ctx(), 1); !errors.Is(err, ErrReadOnly) {
		t.Errorf("got %v", err)
	}
	sealed := newRig(t)
	sealed.write(sample(1))
	c := sealed.info().Config
	c.Sealed = true
	sealed.Stream(t, c)
	if err := sealed.s.Remove(sealed.ctx(), 1); !errors.Is(err, ErrReadOnly) {
		t.Errorf("got %v", err)
	}
	if got := sealed.list(Filter{}); len(got) != 1 {
		t.Errorf("%d letters in a sealed stream", len(got))
	}
	gone := newRig(t)
	gone.write(sample(1))
	for range 2 {
		if err := gone.s.remove(gone.ctx(), 1); err != nil {
			t.Errorf("removing what is gone: %v", err)
		}
	}
}

func TestStoreDenied(t *testing.T) {
	t.Parallel()
	const info, direct, leader = "$JS.API.STREAM.INFO.ORDERS_DLQ", "$JS.API.DIRECT.GET.ORDERS_DLQ", "$JS.API.STREAM.MSG.GET.ORDERS_DLQ"
	allowed := func(s *Store) map[string]error {
		out := map[string]error{}
		for _, err := range s.List(t.Context(), Filter{}) {
			out["list"] = err
		}
		_, out["get"] = s.Get(t.Context(), 1)
		_, out["replay"] = s.Replay(t.Context(), &Letter{Sequence: 1})
		out["remove"] = s.Remove(t.Context(), 1)
		return out
	}
	s, user := lockedServer(t, info, direct, leader)
	c, _ := config.withDefaults()
	s.Stream(t, c.wanted())
	admin := s2rig(t, s, s.Conn(t, nats.UserInfo("admin", "a")))
	admin.write(sample(1))
	store, err := Open(t.Context(), user(), config.Name, "")
	if err != nil {
		t.Fatal(err)
	}
	got := allowed(store)
	if got["list"] != nil || got["get"] != nil {
		t.Errorf("reading: %v, %v", got["list"], got["get"])
	}
	for what, allow := range map[string]string{"replay": "replay.ORDERS.inventory.>", "remove": "$JS.API.STREAM.MSG.DELETE.ORDERS_DLQ"} {
		var denied *PermissionError
		if !errors.As(got[what], &denied) || denied.Allow != allow {
			t.Errorf("%s: %v", what, got[what])
		}
	}
	for _, drop := range []string{info, direct, leader} {
		s, user := lockedServer(t, slices.DeleteFunc([]string{info, direct, leader}, func(s string) bool { return s == drop })...)
		s.Stream(t, c.wanted())
		s2rig(t, s, s.Conn(t, nats.UserInfo("admin", "a"))).write(sample(1))
		what := map[string]string{info: "list", direct: "list", leader: "get"}[drop]
		var denied *PermissionError
		if err := allowed(&Store{c: newClient(user(), config.Name, "")})[what]; !errors.As(err, &denied) || denied.Allow != drop {
			t.Errorf("%s without %s: %v", what, drop, err)
		}
	}
}

// A watch sees what comes, not what was there, goes on when the server comes back, and ends with its context or its stream.
func TestWatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(sample(1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan *Letter, 10000)
	ended := make(chan error, 1)
	go func() {
		var last error
		for l, err := range r.s.Watch(ctx, Filter{Reason: ReasonExhausted}) {
			if last = err; err == nil {
				seen <- l
			}
		}
		ended <- last
	}()
	probe := uint64(probes)
	until(t, "the watch to begin", func() bool {
		probe++
		r.write(sample(probe))
		return len(seen) > 0
	})
	r.write(sample(2, func(l *Letter) { l.Reason = ReasonPermanent }))
	r.write(sample(3))
	if l := next(t, seen); l.MessageSequence != 3 || l.State != StateOpen {
		t.Fatalf("saw %s", short(*l))
	}
	if _, err := r.s.Replay(r.ctx(), r.list(Filter{})[0]); err != nil {
		t.Fatal(err)
	}
	r.write(r.pullReplay())
	if l := next(t, seen); l.MessageSequence != 1 || l.Replays != 1 {
		t.Fatalf("saw %s", short(*l))
	}
	r.Restart()
	until(t, "the letter", func() bool { return r.w.Write(r.ctx(), sample(4)) == nil })
	if l := next(t, seen); l.MessageSequence != 4 {
		t.Fatalf("saw %s", short(*l))
	}
	if n := r.info().State.Consumers; n != 1 {
		t.Errorf("%d consumers", n)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}

	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := r.js.DeleteStream(ctx, config.Name); err != nil {
		t.Fatal(err)
	}
	for l, err := range r.s.Watch(ctx, Filter{}) {
		if l != nil || !errors.Is(err, ErrNoStream) {
			t.Errorf("%v, %v", l, err)
		}
	}
	if ctx.Err() != nil {
		t.Error("it did not end")
	}
}

// A stream that was made again while nobody looked counts from 1 again.
func TestWatchAfterTheStreamWasMadeAgain(t *testing.T) {
	r := newRig(t)
	r.write(sample(1))
	var seen []*Letter
	next, err := r.s.watch(r.ctx(), Filter{}, from{seq: 100}, func(l *Letter, _ error) bool {
		seen = append(seen, l)
		return true
	})
	if err != nil || next != 2 || len(seen) != 1 {
		t.Fatalf("%d letters, next %d, %v", len(seen), next, err)
	}
	if next, err = r.s.watch(r.ctx(), Filter{}, from{seq: next}, nil); err != nil || next != 2 {
		t.Fatalf("next %d, %v", next, err)
	}
	if err := r.js.DeleteStream(r.ctx(), config.Name); err != nil {
		t.Fatal(err)
	}
	if _, err = r.s.watch(r.ctx(), Filter{}, from{seq: next}, nil); !errors.Is(err, ErrNoStream) {
		t.Fatalf("after it was deleted: %v", err)
	}
}

// probes are the letters from which a test sees that a watch has begun.
const probes = 1000000

func next(t *testing.T, seen <-chan *Letter) *Letter {
	t.Helper()
	for limit := time.After(10 * time.Second); ; {
		select {
		case l := <-seen:
			if l.MessageSequence < probes {
				return l
			}
		case <-limit:
			t.Fatal("nothing was seen")
		}
	}
}

// Many letters are read in batches, none twice, none missed, also where batches end at their bytes.
func TestListMany(t *testing.T) {
	r := newRig(t)
	const n = 20000
	js, err := jetstream.New(r.nc, jetstream.WithPublishAsyncMaxPending(4000))
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		l := sample(uint64(i))
		if i%1000 == 0 {
			l.Data = random(400 << 10)
		}
		p, err := encode(l, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		m := &nats.Msg{Subject: Subject("ORDERS", "inventory", uint64(i)), Header: p.header, Data: p.data}
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(time.Minute):
		t.Fatal("publishing took too long")
	}
	began := time.Now()
	i := 0
	for l, err := range r.s.List(within(t, time.Minute), Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if l.MessageSequence != uint64(i) || (i%1000 == 0) != (len(l.Data) > 1000) {
			t.Fatalf("letter %d is %d, %d bytes", i, l.MessageSequence, len(l.Data))
		}
		i++
	}
	took := time.Since(began)
	t.Logf("%d letters in %v", i, took)
	if i != n || took > 30*time.Second {
		t.Errorf("%d letters in %v", i, took)
	}
}

// What is stored while a list runs is not waited for, and what is removed is not missed.
func TestListIsASnapshot(t *testing.T) {
	for name, change := range map[string]func(*jetstream.StreamConfig){"direct": func(*jetstream.StreamConfig) {}, "leader": noDirect} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, change)
			for i := range 10 {
				r.write(sample(uint64(i)))
			}
			n := 0
			for l, err := range r.s.List(r.ctx(), Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; n > 10 {
					t.Fatalf("sequence %d is listed", l.MessageSequence)
				}
				r.write(sample(l.MessageSequence + 100))
			}
			if n != 10 {
				t.Errorf("%d letters", n)
			}
			for m, err := range r.s.c.walk(r.ctx(), ">", from{}, 3, name == "direct") {
				if err != nil || m.sequence > 3 {
					t.Fatalf("sequence %d, %v: a batch is read beyond the end", m.sequence, err)
				}
			}
			for l, err := range r.s.List(r.ctx(), Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				if err := r.s.Remove(r.ctx(), l.Sequence); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.info().State.Msgs; got != 0 {
				t.Errorf("%d are left", got)
			}
		})
	}
}

// The consumer of that name may be that of another's replays: its floor says nothing of these.
func TestFloorOfAnother(t *testing.T) {
	r := newRig(t)
	r.write(sample(1))
	letters := r.list(Filter{})
	if _, err := r.s.Replay(r.ctx(), letters[0]); err != nil {
		t.Fatal(err)
	}
	r.pullReplay()
	mine, err := r.s.floor(r.ctx(), letters[0].at)
	if err != nil || mine == 0 {
		t.Fatalf("%d, %v", mine, err)
	}
	if _, err := r.js.UpdateConsumer(r.ctx(), config.Name, jetstream.ConsumerConfig{Durable: ReplayConsumer("ORDERS", "inventory"),
		FilterSubject: ReplayFilter("another", "one"), AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1000}); err != nil {
		t.Fatal(err)
	}
	if got, err := r.s.floor(r.ctx(), letters[0].at); err != nil || got != 0 {
		t.Errorf("%d, %v", got, err)
	}
	if l := r.list(Filter{})[0]; l.State != StateReplaying {
		t.Errorf("its state is %s", l.State)
	}
}
