package testutil

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestBubbleTimeIsVirtual(t *testing.T) {
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		s := Bubble(t)
		s.Events(t, 1)
		c := s.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "slow", AckWait: 30 * time.Second})
		start := time.Now()
		for want := uint64(1); want <= 3; want++ {
			msg, err := c.Next(jetstream.FetchMaxWait(time.Second))
			if err != nil {
				t.Fatalf("delivery %d: %v", want, err)
			}
			meta, err := msg.Metadata()
			if err != nil {
				t.Fatal(err)
			}
			if meta.NumDelivered != want {
				t.Fatalf("delivery count %d, want %d", meta.NumDelivered, want)
			}
			time.Sleep(30 * time.Second)
		}
		if took := time.Since(start); took < 90*time.Second || took > 95*time.Second {
			t.Errorf("three ack waits took %v of virtual time, want 90 s", took)
		}
	})
	t.Logf("real time: %v", time.Since(began))
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("three ack waits of 30 s took %v of real time", took)
	}
}

func TestBubbleRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Bubble(t)
		s.Events(t, 10)
		c := s.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "d"})
		nc := s.Conn(t)
		reconnected := make(chan struct{}, 1)
		nc.SetReconnectHandler(func(*nats.Conn) { reconnected <- struct{}{} })
		msg, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if err := msg.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := s.Server()
		s.Stop()
		if nc.FlushTimeout(time.Second) == nil {
			t.Error("the connection works although the server is stopped")
		}
		time.Sleep(time.Minute)
		s.Start()
		if s.Server() == before {
			t.Error("Start did not make a new server")
		}
		select {
		case <-reconnected:
		case <-time.After(10 * time.Second):
			t.Fatal("the connection did not come back")
		}
		info := s.WaitInfo(t, "EVENTS", "d", 5*time.Second, "the ack floor to be kept",
			func(i *jetstream.ConsumerInfo) bool { return i.AckFloor.Stream == 1 })
		if info.NumPending != 9 {
			t.Errorf("pending %d, want 9", info.NumPending)
		}
		if body := nextBody(t, c); body != "1" {
			t.Errorf("the next message is %q, want 1", body)
		}
	})
}

// A user's own connection, and tests outside a bubble after one inside: the timers that nats.go keeps.
func TestBubbleThenNone(t *testing.T) {
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			s := Bubble(t)
			nc, err := nats.Connect("", s.InProcess())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			for range 20 {
				if err := nc.Flush(); err != nil { // puts a timer of the bubble into the pool of nats.go
					t.Fatal(err)
				}
			}
		})
		nc := Server(t).Conn(t)
		for range 20 {
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestBubbleOutsideABubble(t *testing.T) {
	said := failure(t, func(t testing.TB) { Bubble(t) })
	if !strings.Contains(said, "inside synctest.Test") {
		t.Errorf("it said %q", said)
	}
}
