//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/testutil"
)

func TestReserve(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p place) {
		s := p.open(t)
		for _, c := range []struct {
			name string
			data any
			want error // nil: reserved
			left int   // of the mugs
			says string
		}{
			{"an order", order{ID: "1", SKU: "mug", Quantity: 2}, nil, 38, "stock_reserved.1"},
			{"more than there is", order{ID: "4", SKU: "mug", Quantity: 39}, errOutOfStock, 38, "stock_rejected.4"},
			{"no quantity means one", `{"order_id":"3","sku":"mug"}`, nil, 37, "stock_reserved.3"},
			{"all there is", order{ID: "2", SKU: "mug", Quantity: 37}, nil, 0, "stock_reserved.2"},
			{"an article that we don't have", order{ID: "5", SKU: "piano", Quantity: 1}, errOutOfStock, 0, "stock_rejected.5"},
			{"no article", `{"order_id":"6"}`, errNoArticle, 0, "stock_rejected.6"},
			{"less than one", order{ID: "7", SKU: "mug", Quantity: -1}, errQuantity, 0, "stock_rejected.7"},
			{"the same order again, as another message", order{ID: "1", SKU: "mug", Quantity: 2}, nil, 0, ""},
			{"a rejected one again, as another message", order{ID: "7", SKU: "teapot", Quantity: 1}, errQuantity, 0, ""},
			{"an id that is too long", order{ID: strings.Repeat("x", longestName+1), SKU: "mug"}, errName, 0, ""},
			{"a zero byte", `{"order_id":"8","sku":"mug\u0000"}`, errName, 0, ""},
			{"an id that no subject can hold", order{ID: "a.b *", SKU: "teapot"}, nil, 0, "stock_reserved." + token("a.b *")},
		} {
			before := outboxOf(t, s)
			err := handler(s).Handle(t.Context(), message(c.data))
			if !errors.Is(err, c.want) || permanent(err) != (c.want != nil) {
				t.Errorf("%s: got %v (permanent: %v), want %v, which is permanent", c.name, err, permanent(err), c.want)
			}
			if left := available(t, s, "mug"); left != c.left {
				t.Errorf("%s: %d mugs are left, want %d", c.name, left, c.left)
			}
			want := before
			if c.says != "" {
				want = append(slices.Clone(before), c.says)
				slices.Sort(want)
			}
			if got := outboxOf(t, s); !slices.Equal(got, want) {
				t.Errorf("%s: the outbox has %q, want %q", c.name, got, want)
			}
		}
		balanced(t, s)
		err := handler(s).Handle(t.Context(), message("not JSON"))
		if _, ok := errors.AsType[*ackfloor.DecodeError](err); !ok {
			t.Errorf("got %v, want a DecodeError", err)
		}
	})
}

func TestAnOrderWithoutAnIDHasThatOfItsMessage(t *testing.T) {
	t.Parallel()
	s := place{dir: t.TempDir()}.open(t)
	m := message(`{"sku":"mug","quantity":1}`)
	must(t, handler(s).Handle(t.Context(), m))
	if n := number(t, s, "SELECT COUNT(*) FROM inventory_orders WHERE order_id = $1", m.ID()); n != 1 {
		t.Errorf("%d orders of the message's id", n)
	}
}

// What comes again is not handled again: with the record that the message is done, and without it, as behind a database that lost it but not the order.
func TestWhatComesAgainIsReservedOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p place) {
		s := p.open(t)
		m := message(order{ID: "1", SKU: "mug", Quantity: 2})
		for range 3 {
			must(t, handler(s).Handle(t.Context(), m))
		}
		if st := s.once.Stats(); st.Done != 1 || st.Skipped != 2 {
			t.Errorf("%+v", st)
		}
		if left := available(t, s, "mug"); left != 38 {
			t.Errorf("%d mugs are left, want 38", left)
		}
		if got := outboxOf(t, s); len(got) != 1 {
			t.Errorf("the outbox has %q", got)
		}
	})
}

// A rejected order that comes again, since the process died before its dead letter was written, stays rejected though the shelf is full by then: the shop
// was told. A replay of its dead letter decides anew.
func TestARejectedOrderIsDecidedAnewByAReplayOnly(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p place) {
		s := p.open(t)
		m := message(order{ID: "1", SKU: "teapot", Quantity: 13})
		replay := testutil.Message(m.Subject, m.Data, testutil.Sequence(m.Sequence), testutil.Published(m.Published), testutil.Header(deadletter.HeaderReplays, "1"))
		for _, m := range []*ackfloor.Message{m, m, replay} { // the replay comes while the shelf is as it was
			if err := handler(s).Handle(t.Context(), m); !errors.Is(err, errOutOfStock) || !permanent(err) {
				t.Fatalf("it returned %v", err)
			}
		}
		must(t, s.restock(t.Context(), []delivery{{"teapot", 20}}))
		if err := handler(s).Handle(t.Context(), m); !errors.Is(err, errOutOfStock) || !permanent(err) {
			t.Errorf("behind the restock it returned %v", err)
		}
		for range 2 {
			must(t, handler(s).Handle(t.Context(), replay))
		}
		if left := available(t, s, "teapot"); left != 19 {
			t.Errorf("%d teapots are left, want 19", left)
		}
		if got, want := outboxOf(t, s), []string{"stock_rejected.1", "stock_reserved.1"}; !slices.Equal(got, want) {
			t.Errorf("the outbox has %q, want %q", got, want)
		}
		balanced(t, s)
	})
}

// No order becomes a dead letter without its event: where the rejection can't be written, the order comes again.
func TestARejectionThatCantBeWrittenIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := place{dir: t.TempDir()}.open(t)
	_, err := s.db.ExecContext(t.Context(), `CREATE TRIGGER refuse BEFORE INSERT ON inventory_outbox BEGIN SELECT RAISE(ABORT, 'not now'); END`)
	must(t, err)
	m := message(order{ID: "1", SKU: "teapot", Quantity: 13})
	if err := handler(s).Handle(t.Context(), m); err == nil || permanent(err) {
		t.Fatalf("it returned %v", err)
	}
	if n := number(t, s, "SELECT COUNT(*) FROM inventory_orders"); n != 0 {
		t.Errorf("%d orders are written", n)
	}
	_, err = s.db.ExecContext(t.Context(), "DROP TRIGGER refuse")
	must(t, err)
	if err := handler(s).Handle(t.Context(), m); !permanent(err) || len(outboxOf(t, s)) != 1 {
		t.Errorf("then it returned %v, and the outbox has %q", err, outboxOf(t, s))
	}
}

// Fifty orders for a mug each side by side, every one of them published twice, by two processes: forty are reserved and ten rejected.
func TestReserveSideBySide(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p place) {
		stores := []*store{p.open(t), p.open(t)}
		var all sync.WaitGroup
		for i := range 100 {
			m := message(order{ID: fmt.Sprint(i % 50), SKU: "mug"})
			all.Go(func() {
				for range 20 {
					err := handler(stores[i%2]).Handle(context.WithoutCancel(t.Context()), m)
					if err == nil || permanent(err) {
						return
					}
				}
				t.Errorf("order %d is not decided", i%50)
			})
		}
		all.Wait()
		s := stores[0]
		if left := available(t, s, "mug"); left != 0 {
			t.Errorf("%d mugs are left, want none", left)
		}
		for state, want := range map[string]int{reserved: 40, rejected: 10} {
			orders := number(t, s, "SELECT COUNT(*) FROM inventory_orders WHERE state = $1", state)
			events := number(t, s, "SELECT COUNT(DISTINCT subject) FROM inventory_outbox WHERE subject LIKE $1", "events.stock_"+state+".%")
			if orders != want || events != want {
				t.Errorf("%d orders and %d events are %s, want %d", orders, events, state, want)
			}
		}
		if n := number(t, s, "SELECT COUNT(*) FROM inventory_outbox"); n != 50 {
			t.Errorf("%d events, want 50", n)
		}
		balanced(t, s)
	})
}

func TestArticleIsTheKey(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{`{"sku":"mug","quantity":"many"}`: "mug", `{}`: "", `no JSON`: "", `[]`: ""} {
		if got := article(message(data)); got != want {
			t.Errorf("the key of %s is %q, want %q", data, got, want)
		}
	}
}

// BenchmarkReserve is one order: the transaction, waiting for the disk.
func BenchmarkReserve(b *testing.B) {
	s, err := openStore(b.Context(), b.TempDir(), 0, 16, b.Logf)
	must(b, err)
	defer func() { _ = s.close() }()
	must(b, s.restock(b.Context(), []delivery{{"mug", mostSupplied}}))
	h := handler(s)
	for b.Loop() {
		n := sequences.Add(1)
		must(b, h.Handle(b.Context(), message(order{ID: fmt.Sprint("b", n), SKU: "mug"}, testutil.Sequence(n))))
	}
}
