package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// Order, and an end, with few places, small pulls, AckSend, failures, time-outs, restarts and crashes: every combination of three of these, by half of those of four.
func TestOrderMatrix(t *testing.T) {
	for _, capacity := range []int{1, 5} {
		for _, ack := range []string{AckConfirm, AckSend} {
			for _, letters := range []bool{true, false} {
				for _, conc := range []int{1, 4} {
					if (capacity == 1) != (ack == AckConfirm) != letters != (conc == 1) {
						continue
					}
					t.Run(fmt.Sprintf("cap %d ack %v letters %v conc %d", capacity, ack, letters, conc), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { matrix(t, capacity, ack, letters, conc) })
					})
				}
			}
		}
	}
}

func matrix(t *testing.T, capacity int, ack string, letters bool, conc int) {
	s := testutil.Bubble(t)
	s.Stream(t, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}})
	js := s.JetStream(t)
	const n = 60
	for i := range n {
		_, err := js.Publish(context.Background(), fmt.Sprintf("events.k%d", i%4), []byte(strings.Repeat("x", 5000)))
		must(t, err)
	}
	r := newRig(t, s, -1)
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(uint64(capacity), uint64(conc)))
	h := ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		mu.Lock()
		x, y := rng.IntN(100), rng.IntN(200)
		mu.Unlock()
		time.Sleep(time.Duration(y) * time.Millisecond)
		switch {
		case x < 10 && m.Attempt < 3:
			return errWork
		case x < 14 && m.Attempt < 3:
			<-ctx.Done()
			return ctx.Err()
		case x < 17 && m.Attempt < 3:
			time.Sleep(3 * time.Second)
			return errWork
		case x < 19 && m.Attempt < 3:
			return ackfloor.Pause(500*time.Millisecond, errWork)
		}
		return nil
	})
	start := func() *running {
		claims.Clear()
		w := r.start(h, inOrder, func(c *Config) {
			if letters {
				withLetters(c)
			}
			c.MaxAckPending, c.Ack, c.Concurrency, c.PullBytes = capacity, ack, conc, 1024
			c.HandleTimeout, c.DrainTimeout, c.MaxAttempts = time.Second, 500*time.Millisecond, 10
		})
		w.working()
		return w
	}
	w := start()
	for i := range 6 {
		time.Sleep(700 * time.Millisecond)
		switch i % 3 {
		case 0:
			_ = w.end()
			if w.took > 6*time.Second {
				t.Errorf("a stop took %v", w.took)
			}
			w = start()
		case 1:
			w.crash()
			w = start()
		case 2:
			if letters {
				w.replaying()
			}
			s.Restart()
		}
	}
	began := time.Now()
	r.floor(n, 30*time.Minute)
	if d := time.Since(began); d > 5*time.Minute {
		t.Errorf("it took %v", d)
	}
	time.Sleep(10 * time.Second)
	if held := w.holds(); held != "" {
		t.Error(held)
	}
	w.ok(w.end())
	for subject, order := range r.firstSuccesses() {
		for i := range order[1:] {
			if order[i] > order[i+1] {
				t.Errorf("%s: %v", subject, order)
				break
			}
		}
	}
}

// While keys wait for what another process held, no more bytes are held than two pulls bring.
func TestShutLanesHoldLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testutil.Bubble(t)
		s.Stream(t, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.>"}})
		js := s.JetStream(t)
		for i := range 1500 {
			_, err := js.Publish(context.Background(), fmt.Sprintf("events.k%d", i%4), make([]byte, 20000))
			must(t, err)
		}
		r := newRig(t, s, -1)
		r.cfg.AckWait, r.cfg.MaxAckPending = 30*time.Second, 1000
		r.s.Consumer(t, rigStream, wanted(r.cfg))
		r.fetch(rigStream, rigConsumer, 1)
		w := r.start(testutil.Sleep(time.Millisecond), inOrder, func(c *Config) { c.PullBytes = 100000 })
		time.Sleep(20 * time.Second)
		if n := len(w.Held()); n > 40 {
			t.Errorf("it holds %d messages of 20 kB, PULL_BYTES is 100 kB", n)
		}
		r.floor(1500, 10*time.Minute)
		w.ok(w.end())
	})
}

// A Key that panics for each message does not flood the log.
func TestKeyPanicsFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 5000)
		w := r.start(testutil.Succeed(), func(c *Config) {
			c.Key = func(*ackfloor.Message) string { panic("no") }
		})
		r.floor(5000, time.Minute)
		w.ok(w.end())
		if n := r.logged("Key panicked"); n > 100 {
			t.Errorf("%d lines", n)
		}
	})
}

// An idle new consumer with keys is not asked 50 times a second after a reconnect.
func TestIdleReconnectAsksLittle(t *testing.T) {
	s := testutil.Server(t)
	p := s.Proxy(t)
	keyed(t, s, 0, 1)
	r := newRig(t, s, -1)
	nc, err := Connect(t.Context(), Connection{URL: p.URL()})
	must(t, err)
	w := r.startOn(nc, testutil.Succeed(), inOrder, func(c *Config) { c.AckWait = 30 * time.Second })
	w.working()
	time.Sleep(time.Second)
	p.Cut()
	time.Sleep(1500 * time.Millisecond)
	before := nc.Stats().OutMsgs
	time.Sleep(5 * time.Second)
	if n := nc.Stats().OutMsgs - before; n > 120 {
		t.Errorf("%d requests in 5 s, with nothing to do", n)
	}
	w.ok(w.end())
}
