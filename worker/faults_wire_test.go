package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
)

// wire is what was sent to settle deliveries, as another client hears it.
type wire struct {
	mu   sync.Mutex
	sent map[string][]heardOf // by reply subject
}

type heardOf struct {
	body string
	seq  uint64
	at   time.Time
}

// listen hears every settlement from here on.
func (r *rig) listen() *wire {
	r.t.Helper()
	w := &wire{sent: map[string][]heardOf{}}
	nc := r.s.Conn(r.t)
	_, err := nc.Subscribe("$JS.ACK."+rigStream+".>", func(m *nats.Msg) {
		st, _ := parseReply(m.Subject)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sent[m.Subject] = append(w.sent[m.Subject], heardOf{string(m.Data), st.streamSeq, time.Now()})
	})
	must(r.t, err)
	must(r.t, nc.FlushWithContext(soonOver(r.t)))
	return w
}

// Whatever handlers do, and while the server restarts and workers stop: an ack is on the wire only behind a handler that returned nil for that message, a delivery has one
// verdict, which may be sent again, and its lease is not extended behind that.
func TestWhatIsOnTheWire(t *testing.T) {
	for _, way := range []string{"", "keyed", "batch"} {
		t.Run("mode "+way, func(t *testing.T) {
			mode = way
			defer func() { mode = "" }()
			synctest.Test(t, func(t *testing.T) {
				s := testutil.Bubble(t)
				r := newRig(t, s, 200)
				wire := r.listen()
				time.Sleep(3 * time.Second)
				h := ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
					if err := testutil.Sleep(time.Duration(m.Sequence%9*40)*time.Millisecond).Handle(ctx, m); err != nil {
						return err
					}
					switch {
					case m.Sequence%10 == 1 && m.Attempt < 3:
						return errWork
					case m.Sequence%10 == 2:
						return ackfloor.Permanent(errWork)
					case m.Sequence%10 == 3 && m.Attempt == 1:
						panic("x")
					case m.Sequence%20 == 4 && m.Attempt == 1:
						<-ctx.Done()
						return ctx.Err()
					case m.Sequence%10 == 5 && m.Attempt == 1:
						return ackfloor.RetryAfter(700*time.Millisecond, errWork)
					}
					return nil
				})
				for round := range 6 {
					w := r.startOn(connectLikeWorker(t, s), h, withLetters, func(c *Config) { c.HandleTimeout, c.DrainTimeout = time.Second, 150*time.Millisecond })
					w.replaying()
					time.Sleep(1500 * time.Millisecond)
					if round%2 == 1 {
						s.Restart()
						time.Sleep(500 * time.Millisecond)
					}
					if err := w.end(); err != nil && !errors.As(err, new(*DrainError)) {
						t.Fatal(err)
					}
				}
				w := r.start(h, withLetters, func(c *Config) { c.HandleTimeout = time.Second })
				r.floor(200, time.Minute)
				w.ok(w.end())
				wire.check(r)
			})
		})
	}
}

// check holds what was heard against what handlers returned.
func (w *wire) check(r *rig) {
	r.t.Helper()
	done := map[uint64]time.Time{} // when a handler first returned nil
	for _, c := range r.calls.Calls() {
		if at, ok := done[c.Sequence]; c.Err == nil && !c.NoReturn && !c.End.IsZero() && (!ok || c.End.Before(at)) {
			done[c.Sequence] = c.End
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	kinds := map[string]int{}
	for reply, sent := range w.sent {
		verdict := ""
		for _, m := range sent {
			kind, _, _ := strings.Cut(m.body, " ")
			if m.body == string(reserveBody(r.cfg.AckWait)) {
				kind = "+WPI" // a reservation behind a reconnect: a NAK that is a lease, and no verdict
			}
			kinds[kind]++
			switch {
			case kind == "+WPI" && verdict != "":
				r.t.Errorf("%s: its lease is extended behind %s", reply, verdict)
			case kind == "+WPI":
				continue
			case verdict != "" && verdict != kind:
				r.t.Errorf("%s: %s, and then %s: %v", reply, verdict, kind, sent)
			}
			if at, ok := done[m.seq]; kind == "+ACK" && (!ok || m.at.Before(at)) {
				r.t.Errorf("%s: acknowledged at %v, its handler returned nil at %v (%v)", reply, m.at, at, ok)
			}
			verdict = kind
		}
	}
	if kinds["+ACK"] < 150 || kinds["-NAK"] == 0 || kinds["+TERM"] < 15 || kinds["+WPI"] == 0 {
		r.t.Errorf("heard %v", kinds)
	}
}

// The floor that the server shows never goes back, while workers and the server restart.
func TestFloorNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		r := newRig(t, s, 600)
		time.Sleep(3 * time.Second)
		highest, looks := uint64(0), 0
		look := func(d time.Duration) {
			for range d / (20 * time.Millisecond) {
				time.Sleep(20 * time.Millisecond)
				floor := s.Info(t, rigStream, rigConsumer).AckFloor.Stream
				if looks++; floor < highest {
					t.Errorf("the floor went from %d back to %d", highest, floor)
				}
				highest = max(highest, floor)
			}
		}
		for range 5 {
			w := r.startOn(connectLikeWorker(t, s), testutil.Sleep(30*time.Millisecond))
			w.working()
			look(400 * time.Millisecond)
			s.Restart()
			look(600 * time.Millisecond)
			w.ok(w.end())
		}
		w := r.start(testutil.Succeed())
		r.floor(600, 10*time.Second)
		w.ok(w.end())
		if highest < 100 || looks < 200 {
			t.Errorf("%d looks, the floor at %d", looks, highest)
		}
	})
}

// cutAfter is a connection that breaks before the message behind the last that it may publish.
type cutAfter struct {
	net.Conn
	left *atomic.Int32
}

var publishes = regexp.MustCompile(`(?m)^H?PUB `)

func (c cutAfter) Write(b []byte) (int, error) {
	for _, at := range publishes.FindAllIndex(b, -1) {
		if c.left.Add(-1) < 0 {
			n, _ := c.Conn.Write(b[:at[0]])
			_ = c.Close()
			return n, errors.New("cut")
		}
	}
	return c.Conn.Write(b)
}

// cutServer makes connections that break behind so many messages.
type cutServer struct {
	s    *testutil.S
	left *atomic.Int32
}

func (c cutServer) InProcessConn() (net.Conn, error) {
	conn, err := c.s.Server().InProcessConn()
	return cutAfter{conn, c.left}, err
}

// A worker dies behind each of the messages that it publishes in turn, from the first to the last that it has: whatever it was about, the next one handles what is left, what is given up is one dead
// letter each, and what the server had confirmed is not handled again.
func TestDeathAtAnyMessage(t *testing.T) {
	most := 0
	for n := 1; most == 0; n++ {
		synctest.Test(t, func(t *testing.T) {
			s := testutil.Bubble(t)
			r := newRig(t, s, 4)
			h := testutil.ByData(map[string]ackfloor.Handler{"1": permanent(), "2": testutil.Fail(-1, errWork)}, testutil.Succeed())
			change := func(c *Config) { withLetters(c); c.MaxAttempts, c.Concurrency, c.RetrySchedule = 2, 1, "100ms" }
			left := new(atomic.Int32)
			left.Store(int32(n))
			nc, err := nats.Connect(s.URL(), nats.InProcessServer(cutServer{s, left}), nats.NoReconnect())
			if err != nil {
				return // it died before it was anything
			}
			t.Cleanup(nc.Close)
			w := r.startOn(nc, h, change)
			for over := false; !over; {
				select {
				case <-w.done:
					over = true
				case <-time.After(100 * time.Millisecond):
					if c := w.Status().Counts; c.Acked+c.DeadLettered == 4 && c.Unconfirmed == 0 {
						over, most = true, n
					}
				}
			}
			nc.Close()
			<-w.done
			claims.Clear()
			acked := uint64(0)
			if _, err := s.JetStream(t).Consumer(t.Context(), rigStream, rigConsumer); err == nil {
				acked = s.Info(t, rigStream, rigConsumer).AckFloor.Stream
			}
			before := r.calls.Calls()
			next := r.start(h, change)
			r.awaitLetters(2, 20*time.Second)
			r.floor(4, 20*time.Second)
			next.ok(next.end())
			letters := map[uint64]int{}
			for _, l := range r.letters() {
				letters[l.MessageSequence]++
			}
			if fmt.Sprint(letters) != "map[2:1 3:1]" {
				t.Errorf("behind %d messages: letters %v", n, letters)
			}
			for _, c := range r.calls.Calls()[len(before):] {
				if c.Sequence <= acked {
					t.Errorf("behind %d messages: %v, though the floor was at %d", n, c, acked)
				}
			}
			for seq, calls := range map[uint64]int{1: 2, 2: 2, 3: 4, 4: 2} { // each twice at the most where the worker died in it
				if got := r.calls.Count(seq); got == 0 || got > calls {
					t.Errorf("behind %d messages: message %d was handled %d times", n, seq, got)
				}
			}
		})
		if n > 400 {
			t.Fatal("it never has enough")
		}
	}
	t.Logf("%d messages", most)
}
