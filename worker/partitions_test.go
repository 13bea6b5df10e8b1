package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// Each partition has a consumer and filters of its own, and the rest of the configuration.
func TestPartitions(t *testing.T) {
	c := Config{Stream: "ORDERS", Consumer: "shop", Filter: []string{"orders.*.>", "refunds.*.*"}, Concurrency: 3, PinnedTTL: time.Minute}
	parts, err := Partitions(c, 12)
	must(t, err)
	last := parts[11]
	if len(parts) != 12 || parts[0].Consumer != "shop_p0" || last.Consumer != "shop_p11" || !slices.Equal(last.Filter, []string{"orders.11.>", "refunds.11.*"}) ||
		last.Concurrency != 3 || last.PinnedTTL != time.Minute || c.Filter[0] != "orders.*.>" {
		t.Errorf("%+v", parts)
	}
	for _, tt := range []struct {
		filter []string
		n      int
		says   string
	}{
		{c.Filter, 0, "0 partitions"}, {c.Filter, 1001, "1001 partitions"}, {nil, 3, "FILTER"}, {[]string{"orders.*.>", "refunds.>"}, 3, `"refunds.>"`}, {[]string{"orders.a*"}, 3, `"orders.a*"`},
	} {
		_, err := Partitions(Config{Stream: "S", Consumer: "C", Filter: tt.filter}, tt.n)
		mentioned(t, configProblems(t, err), tt.says)
	}
}

// Two processes have a Runner for each partition of a stream that numbers its subjects; one dies, and comes back. Keys stay in order over all of it.
func TestOrderInPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, keys, partitions = 2000, 40, 4
		s := testutil.Bubble(t)
		s.Stream(t, jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.*"},
			SubjectTransform: &jetstream.SubjectTransformConfig{Source: "events.*", Destination: "events.{{partition(4,1)}}.{{wildcard(1)}}"}})
		js := s.JetStream(t)
		for i := range n {
			_, err := js.Publish(context.Background(), fmt.Sprintf("events.k%d", i%keys), nil)
			must(t, err)
		}
		r := newRig(t, s, -1)
		parts, err := Partitions(Config{Consumer: "P", Filter: []string{"events.*.*"}}, partitions)
		must(t, err)
		process := func() (runners []*running) {
			claims.Clear()
			for _, p := range parts {
				runners = append(runners, r.start(testutil.Sleep(20*time.Millisecond), pinnedInOrder, func(c *Config) {
					c.Consumer, c.Filter, c.Key, c.Concurrency = p.Consumer, p.Filter, ackfloor.KeyBySubject(3), 2
				}))
			}
			for _, w := range runners {
				w.working()
			}
			return runners
		}
		a := process()
		b := process()
		time.Sleep(time.Second)
		for _, w := range a {
			w.crash()
		}
		c := process()
		time.Sleep(10 * time.Second)
		for _, w := range b {
			w.ok(w.end())
		}
		r.calls.WaitDistinct(t, n, time.Minute)
		for _, w := range c {
			w.ok(w.end())
		}
		byPartition := map[string]int{}
		for subject, order := range r.firstSuccesses() {
			if !slices.IsSorted(order) || len(order) != n/keys {
				t.Errorf("%s: %v", subject, order)
			}
			byPartition[strings.Split(subject, ".")[1]]++
		}
		if len(byPartition) != partitions {
			t.Errorf("keys by partition: %v", byPartition)
		}
	})
}
