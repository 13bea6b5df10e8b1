package deadletter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What goes in comes out, through the server and by every way of reading.
func TestWriteKeepsEverything(t *testing.T) {
	r := newRig(t)
	seq := uint64(0)
	for name, h := range odd {
		for _, data := range [][]byte{nil, []byte("data\x00\xff\r\n")} {
			seq++
			want := sample(seq, func(l *Letter) { l.Header, l.Data, l.Host = h, data, name })
			r.write(want)
			if n := r.info().State.LastSeq; n != seq {
				t.Fatalf("%s: stored at %d, not %d", name, n, seq)
			}
			got, err := r.s.Get(r.ctx(), seq)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			same(t, got, want)
			if got.Sequence != seq || time.Since(got.Stored).Abs() > time.Minute || got.State != StateOpen {
				t.Fatalf("sequence %d, stored %v, state %q", got.Sequence, got.Stored, got.State)
			}
			m, err := r.w.c.lastDirect(r.ctx(), Subject("ORDERS", "inventory", seq))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			same(t, m.letter(), want)
		}
	}
	letters := r.list(Filter{})
	if len(letters) != int(seq) {
		t.Fatalf("%d letters, not %d", len(letters), seq)
	}
	for i, got := range letters {
		got.Host = "" // the order of the map is not kept
		want := sample(uint64(i+1), func(l *Letter) { l.Header, l.Data, l.Host = odd[letters[i].Host], got.Data, "" })
		want.Header = got.Header
		same(t, got, want)
	}
}

// Whoever writes the letter of a message, and however often, there is one.
func TestWriteOnce(t *testing.T) {
	r := newRig(t)
	var all sync.WaitGroup
	failed := make(chan error, 100)
	other := NewWriter(r.Conn(t), config)
	for i := range 50 {
		for _, w := range []*Writer{r.w, other} {
			all.Go(func() {
				if err := w.Write(r.ctx(), sample(uint64(i%10), func(l *Letter) { l.Host = fmt.Sprint(i) })); err != nil {
					failed <- err
				}
			})
		}
	}
	all.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	if got := r.subjects(); len(got) != 10 {
		t.Errorf("%d letters of 10 messages: %q", len(got), got)
	}
}

// A stream that was deleted and made again counts from 1 again: its messages are others, and none of their letters is taken for written.
func TestWriteAfterTheStreamWasMadeAgain(t *testing.T) {
	r := newRig(t)
	later := func(l *Letter) { l.Published, l.Data = l.Published.Add(time.Hour), []byte("another") }
	for range 2 {
		r.write(sample(7))
		r.write(sample(7, later))
		r.write(sample(7, later))
	}
	want := []string{"dlq.ORDERS.inventory.7", "dlq.ORDERS.inventory.7." + born(sample(7, later).Published)}
	if got := r.subjects(); !slices.Equal(got, want) {
		t.Fatalf("stored: %q, want %q", got, want)
	}
	letters := r.list(Filter{})
	same(t, letters[0], sample(7))
	same(t, letters[1], sample(7, later))

	// Both can be replayed, apart, and both replays can fail.
	for i, l := range letters {
		if got, err := r.s.Replay(r.ctx(), l); err != nil || got.Already {
			t.Fatalf("replay %d: %+v, %v", i, got, err)
		}
	}
	for range 2 {
		r.write(sample(7, func(l *Letter) { l.Replays, l.ReplayOf = 1, letters[0].Sequence }))
		r.write(sample(7, later, func(l *Letter) { l.Replays, l.ReplayOf = 1, letters[1].Sequence }))
	}
	got := r.list(Filter{})
	if len(got) != 2 || got[0].Replays != 1 || got[1].Replays != 1 || string(got[1].Data) != "another" || got[0].State != StateOpen {
		t.Fatalf("after both failed: %d letters, %+v", len(got), got)
	}
	if got := r.subjects(); !slices.Equal(slices.Sorted(slices.Values(got)), []string{want[0], want[1],
		"replay" + strings.TrimPrefix(want[0], "dlq"), "replay" + strings.TrimPrefix(want[1], "dlq")}) {
		t.Fatalf("stored: %q", got)
	}
}

// The letter of a replay that failed takes the place of the one that was replayed, once, and comes back if that one was removed.
func TestWriteFailedReplay(t *testing.T) {
	t.Parallel()
	for _, blind := range []bool{false, true} {
		for _, again := range []bool{false, true} { // with the publish time in the subject
			t.Run(fmt.Sprintf("blind %v, made again %v", blind, again), func(t *testing.T) {
				s, worker := lockedServer(t, "dlq.ORDERS.inventory.>")
				c, _ := config.withDefaults()
				s.Stream(t, c.wanted())
				r := s2rig(t, s, s.Conn(t, nats.UserInfo("admin", "a")))
				kind := func(l *Letter) {}
				if again {
					r.write(sample(7, func(l *Letter) { l.Published = then.Add(-time.Hour) }))
				}
				r.write(sample(7, kind))
				if blind {
					r.w = NewWriter(worker(), config)
				}
				first := r.info().State.LastSeq
				at := Subject("ORDERS", "inventory", 7)
				if again {
					at += "." + born(sample(7).Published)
				}
				failed := func(replays int, of uint64) *Letter {
					return sample(7, func(l *Letter) { l.Replays, l.ReplayOf = replays, of })
				}
				check := func(replays int, seq uint64) uint64 {
					t.Helper()
					m, err := r.s.c.lastOfLeader(r.ctx(), at)
					if err != nil {
						t.Fatal(err)
					}
					if l := m.letter(); l.Replays != replays || (seq != 0 && l.Sequence != seq) {
						t.Fatalf("the letter has replays %d, sequence %d; want %d, %d", l.Replays, l.Sequence, replays, seq)
					}
					return m.sequence
				}
				r.write(failed(1, first))
				second := check(1, first+1)
				r.write(failed(1, first)) // twice
				check(1, second)
				if !blind {
					r.write(sample(7)) // the original again
					check(1, second)
				}
				r.write(failed(2, second))
				third := check(2, second+1)
				r.write(failed(1, first)) // late
				check(2, third)
				if err := r.s.Remove(r.ctx(), third); err != nil {
					t.Fatal(err)
				}
				r.write(failed(3, third)) // it is there again
				check(3, 0)
				if n := len(r.list(Filter{})); n != 1 && !again || n > 2 {
					t.Fatalf("%d letters", n)
				}
			})
		}
	}
}

// The letter of a replay that failed also takes the place of one that the original got once more in between.
func TestWriteFailedReplayOfARemovedLetter(t *testing.T) {
	r := newRig(t)
	r.write(sample(7))
	if err := r.s.Remove(r.ctx(), 1); err != nil {
		t.Fatal(err)
	}
	r.write(sample(7))
	r.write(sample(7, func(l *Letter) { l.Replays, l.ReplayOf = 1, 1 }))
	if got := r.list(Filter{}); len(got) != 1 || got[0].Replays != 1 {
		t.Fatalf("%d letters, replays %d", len(got), got[0].Replays)
	}
}

// A user who may only write gets the same answers, but for a message of a stream that was made again: its letter can't be told from the older.
func TestWriteWithoutReading(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*jetstream.StreamConfig){"direct": func(*jetstream.StreamConfig) {}, "leader": noDirect} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rights := []string{"dlq.ORDERS.inventory.>"}
			if name == "leader" {
				rights = append(rights, "$JS.API.DIRECT.GET.ORDERS_DLQ.>") // which nobody answers
			}
			s, worker := lockedServer(t, rights...)
			c, _ := config.withDefaults()
			stream := c.wanted()
			change(&stream)
			s.Stream(t, stream)
			r := s2rig(t, s, s.Conn(t, nats.UserInfo("admin", "a")))
			w := NewWriter(worker(), config)
			for range 2 {
				if err := w.Write(r.ctx(), sample(7)); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Write(r.ctx(), sample(7, func(l *Letter) { l.Published = then })); err != nil {
				t.Fatal(err)
			}
			if got := r.info().State.Msgs; got != 1 {
				t.Fatalf("%d letters", got)
			}
		})
	}
}

func TestWriteErrors(t *testing.T) {
	full := func(c *jetstream.StreamConfig) { c.MaxBytes = 2048 }
	for name, c := range map[string]struct {
		change func(*jetstream.StreamConfig)
		letter *Letter
		want   error
	}{
		"missing":               {func(c *jetstream.StreamConfig) { c.Name, c.Subjects = "OTHER", []string{"other"} }, sample(1), ErrNoStream},
		"full":                  {full, sample(1, func(l *Letter) { l.Data = make([]byte, 2000) }), ErrFull},
		"full of messages":      {func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 }, sample(1), ErrFull},
		"sealed":                {func(c *jetstream.StreamConfig) { c.Sealed = true }, sample(1), ErrReadOnly},
		"another's subject":     {func(c *jetstream.StreamConfig) { c.Name = "OTHER" }, sample(1), ErrTaken},
		"small max_msg_size":    {func(c *jetstream.StreamConfig) { c.MaxMsgSize = 500 }, sample(1, func(l *Letter) { l.Data = make([]byte, 600) }), ErrTooLarge},
		"larger than two parts": {nil, sample(1, func(l *Letter) { l.Data = make([]byte, 3<<20) }), ErrTooLarge},
		"name of a stream":      {nil, sample(1, func(l *Letter) { l.Stream = "A.B" }), nil},
		"name of a consumer":    {nil, sample(1, func(l *Letter) { l.Consumer = "*" }), nil},
		"no subject":            {nil, sample(1, func(l *Letter) { l.Subject = "" }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			stream := func(sc *jetstream.StreamConfig) {
				if c.change != nil {
					c.change(sc)
				}
				sc.Sealed = false
			}
			r := newRig(t, stream)
			if c.want == ErrReadOnly {
				sealed := r.info().Config
				sealed.Sealed = true
				r.Stream(t, sealed)
			}
			if name == "full of messages" {
				r.write(sample(9))
			}
			began := time.Now()
			err := r.w.Write(r.ctx(), c.letter)
			if err == nil || (c.want != nil && !errors.Is(err, c.want)) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if c.want != nil && c.want != ErrTooLarge && !strings.Contains(err.Error(), `"dlq.ORDERS.inventory.1"`) {
				t.Errorf("no subject in %q", err)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("it took %v to say %q", took, err)
			}
			t.Log(err)
		})
	}
}

// A denial is seen at once, also by many at the same time: the connection keeps one error for all of them.
func TestWriteDenied(t *testing.T) {
	s, worker := lockedServer(t, "nothing")
	c, _ := config.withDefaults()
	s.Stream(t, c.wanted())
	w := NewWriter(worker(), config)
	began := time.Now()
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			err := w.Write(t.Context(), sample(uint64(i)))
			var denied *PermissionError
			if !errors.As(err, &denied) || denied.Allow != "dlq.ORDERS.inventory.>" || !strings.HasPrefix(denied.Subject, "dlq.ORDERS.inventory.") {
				t.Errorf("got %v", err)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

// While the server is away a Write ends with its context, and the letter is there once afterwards.
func TestWriteWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(sample(1))
	r.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := r.w.Write(ctx, sample(2)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	r.Start()
	until(t, "the letter after the restart", func() bool { return r.w.Write(r.ctx(), sample(2)) == nil })
	if got := r.subjects(); len(got) != 2 {
		t.Fatalf("stored: %q", got)
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("still waiting for %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// random bytes, so that nothing hides in repetitions.
func random(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

// A message at the limits has no room for the headers of a letter: it is kept in two parts and comes back whole, also through a replay.
func TestWriteHuge(t *testing.T) {
	long := nats.Header{"X-Long": {strings.Repeat("v", 30000)}, "Nats-Rollup": {"all"}, "X-Bytes": {string(random(30000))}}
	plain := nats.Header{"X-Long": {strings.Repeat("v", 65000)}}
	exact := func(h nats.Header) []byte { return random(1<<20 - size(h)) }
	for name, want := range map[string]*Letter{
		"payload of max_payload":              sample(1, func(l *Letter) { l.Header, l.Data = nil, random(1<<20) }),
		"payload and headers of max_payload":  sample(2, func(l *Letter) { l.Data = exact(l.Header) }),
		"headers near 64 KiB":                 sample(3, func(l *Letter) { l.Header = plain }),
		"headers near 64 KiB, odd":            sample(4, func(l *Letter) { l.Header, l.Data = long, nil }),
		"both":                                sample(5, func(l *Letter) { l.Header = plain; l.Data = exact(plain) }),
		"headers that grow when they are put": sample(6, func(l *Letter) { l.Header = nats.Header{"X": {strings.Repeat(" \x01", 20000)}} }),
		"just no room":                        sample(8, func(l *Letter) { l.Data = random(1<<20 - size(l.Header) - 600) }),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for range 2 {
				r.write(want)
			}
			subjects := r.subjects()
			if len(subjects) != 2 || isLetter(subjects[0]) || !isLetter(subjects[1]) {
				t.Fatalf("stored: %q", subjects)
			}
			listed := r.list(Filter{})
			if len(listed) != 1 || !listed[0].Incomplete() || listed[0].Reason != want.Reason {
				t.Fatalf("listed: %d", len(listed))
			}
			got, err := r.s.Get(r.ctx(), listed[0].Sequence)
			if err != nil || got.Incomplete() {
				t.Fatal(err)
			}
			same(t, got, want)

			// A worker gets the replay of what was only listed, and of what is whole, and can write it again in either state.
			if _, err := r.s.Replay(r.ctx(), listed[0]); err != nil {
				t.Fatal(err)
			}
			replay := r.pullReplay()
			if err := r.w.Write(r.ctx(), replay); err != nil {
				t.Fatal(err)
			}
			if err := r.w.Complete(r.ctx(), replay); err != nil {
				t.Fatal(err)
			}
			failed := *want
			failed.Replays, failed.ReplayOf = 1, listed[0].Sequence
			same(t, replay, &failed)
			r.write(replay)
			listed = r.list(Filter{})
			if len(listed) != 1 || listed[0].Replays != 1 {
				t.Fatalf("%d letters after the replay failed", len(listed))
			}
			if got, err = r.s.Get(r.ctx(), listed[0].Sequence); err != nil {
				t.Fatal(err)
			}
			same(t, got, &failed)

			// Nothing of it is left when it is removed.
			if err := r.s.Remove(r.ctx(), got.Sequence); err != nil {
				t.Fatal(err)
			}
			if subjects := r.subjects(); len(subjects) != 1 || !strings.HasPrefix(subjects[0], "replay.") {
				t.Fatalf("left: %q", subjects)
			}
			if err := r.w.Complete(r.ctx(), listed[0]); !errors.Is(err, ErrIncomplete) {
				t.Fatalf("completing without the rest: %v", err)
			}
		})
	}
}

// pullReplay takes one replay as a worker does and acknowledges it.
func (r *rig) pullReplay() *Letter {
	r.t.Helper()
	c, err := r.js.CreateOrUpdateConsumer(r.ctx(), config.Name, jetstream.ConsumerConfig{Durable: ReplayConsumer("ORDERS", "inventory"),
		FilterSubject: ReplayFilter("ORDERS", "inventory"), AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	batch, err := c.Fetch(1, jetstream.FetchMaxWait(5*time.Second))
	if err != nil {
		r.t.Fatal(err)
	}
	m, ok := <-batch.Messages()
	if !ok {
		r.t.Fatal("no replay came")
	}
	l, err := ReadReplay(m.Subject(), m.Headers(), m.Data())
	if err != nil {
		r.t.Fatal(err)
	}
	if err := m.DoubleAck(r.ctx()); err != nil {
		r.t.Fatal(err)
	}
	return l
}

// The server stores nothing when it is asked with a last sequence that it can't have, and the number is not read as another.
func TestAskingStoresNothing(t *testing.T) {
	r := newRig(t)
	r.write(sample(0))
	before := r.info().State
	for _, expected := range []uint64{math.MaxUint64, math.MaxInt64, 2, 1 << 40} {
		_, err := r.w.c.publish(r.ctx(), Subject("ORDERS", "inventory", 0), ">", nats.Header{}, nil, expected)
		var other *conflict
		if !errors.As(err, &other) || other.last != 1 {
			t.Errorf("expecting %d: %v", expected, err)
		}
	}
	if after := r.info().State; after.LastSeq != before.LastSeq || after.Msgs != before.Msgs {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// In a cluster two publishes to one subject can be under way at once: then the server decides neither, and the second has to ask again.
func TestWriteOnceInACluster(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a cluster takes seconds")
	}
	s := testutil.Cluster(t, 3)
	c, _ := config.withDefaults()
	c.Replicas = 3
	s.Stream(t, c.wanted())
	var all sync.WaitGroup
	failed := make(chan error, 200)
	for range 4 {
		w := NewWriter(s.Conn(t), config)
		for i := range 50 {
			all.Go(func() {
				if err := w.Write(t.Context(), sample(uint64(i%5), func(l *Letter) { l.Data = bytes.Repeat([]byte("x"), 1+i) })); err != nil {
					failed <- err
				}
			})
		}
	}
	all.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	store, err := Open(t.Context(), s.Conn(t), config.Name, "")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	until(t, "five letters", func() bool { // a replica may be behind
		n = 0
		for _, err := range store.List(t.Context(), Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n >= 5
	})
	if n != 5 {
		t.Errorf("%d letters of 5 messages", n)
	}
}

// FuzzWrite sends letters through a real server.
func FuzzWrite(f *testing.F) {
	s := testutil.Server(f, func(o *server.Options) { o.MaxPayload = 8192 })
	c, _ := config.withDefaults()
	s.Stream(f, c.wanted())
	nc := s.Conn(f)
	w, store := NewWriter(nc, config), &Store{c: newClient(nc, config.Name, "")}
	for _, h := range odd {
		for k, vs := range h {
			f.Add(k, strings.Join(vs, "\x00"), []byte("data"), uint16(0))
		}
	}
	f.Add("X", strings.Repeat("v", 5000), []byte("data"), uint16(2000))
	seq := uint64(time.Now().UnixNano())
	f.Fuzz(func(t *testing.T, k, v string, data []byte, more uint16) {
		seq++
		want := sample(seq, func(l *Letter) {
			l.Header, l.Data = nats.Header{k: strings.Split(v, "\x00")}, append(data, make([]byte, more%6000)...)
		})
		err := w.Write(t.Context(), want)
		if errors.Is(err, ErrTooLarge) {
			t.Skip()
		}
		if err != nil {
			t.Fatal(err)
		}
		m, err := w.c.last(t.Context(), Subject("ORDERS", "inventory", seq))
		if err != nil {
			t.Fatal(err)
		}
		got, err := store.Get(t.Context(), m.sequence)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want)
		if err := store.Remove(t.Context(), m.sequence); err != nil {
			t.Fatal(err)
		}
	})
}
