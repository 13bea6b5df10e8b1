package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// traffic is what happens in the shop: visitors look at pages, type into fields, now and then order, and some register.
type traffic struct {
	js     jetstream.JetStream
	random *rand.Rand
	rate   atomic.Int64 // thousandths of an event a second
	sent   atomic.Uint64
	failed atomic.Uint64 // not stored, as far as was heard
	order  int
	user   int
}

func newTraffic(js jetstream.JetStream, rate float64, seed uint64) *traffic {
	t := &traffic{js: js, random: rand.New(rand.NewPCG(seed, 1)), order: 3000, user: 100}
	t.set(rate)
	return t
}

func (t *traffic) set(rate float64) { t.rate.Store(int64(1000 * min(max(rate, 0), 10000))) }
func (t *traffic) now() float64     { return float64(t.rate.Load()) / 1000 }

// run publishes until ctx ends. While the server is away nothing happens in the shop.
func (t *traffic) run(ctx context.Context) {
	const every = 50 * time.Millisecond
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	due := 0.0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !t.js.Conn().IsConnected() {
			due = 0
			continue
		}
		for due += t.now() * every.Seconds(); due >= 1; due-- {
			t.publish()
		}
	}
}

func (t *traffic) publish() {
	subject, data := t.event()
	if _, err := t.js.PublishAsync(subject, []byte(data)); err != nil {
		t.failed.Add(1)
		return
	}
	t.sent.Add(1)
}

// event is the next thing that happens: of a hundred, seventy pages, twenty inputs, eight orders and two registrations.
func (t *traffic) event() (subject, data string) {
	pages := []string{"/home", "/home", "/home", "/teapots", "/teapots", "/mugs", "/kettles", "/cart", "/pricing", "/about"}
	fields := []string{"search", "search", "email", "name", "street", "coupon"}
	articles := []string{"mug", "mug", "mug", "teapot", "kettle"}
	visitor := fmt.Sprintf("v%d", 1+t.random.IntN(200))
	switch n := t.random.IntN(100); {
	case n < 70:
		return "events.page_loaded", fmt.Sprintf(`{"page":%q,"visitor":%q}`, pages[t.random.IntN(len(pages))], visitor)
	case n < 90:
		return "events.input_changed", fmt.Sprintf(`{"field":%q,"visitor":%q}`, fields[t.random.IntN(len(fields))], visitor)
	case n < 98:
		t.order++
		return "events.order_placed", fmt.Sprintf(`{"order_id":"%d","sku":%q,"quantity":1,"email":"%s@example.com"}`, t.order, articles[t.random.IntN(len(articles))], visitor)
	}
	t.user++
	return "events.user_registered", fmt.Sprintf(`{"user":"user%d","email":"user%d@example.com"}`, t.user, t.user)
}
