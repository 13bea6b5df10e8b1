package metrics_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/metrics"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/prometheus/client_golang/prometheus"
)

// One Metrics for each Runner: around its handler, and in a registry.
func ExampleNew() {
	test := func(t *testing.T) {
		s := testutil.Server(t)
		s.Events(t, 3)
		handle := ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { return nil })

		m, err := metrics.New(metrics.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := worker.New(s.Conn(t), worker.Config{Stream: "EVENTS", Consumer: "billing", ExitWhenIdle: true}, ackfloor.Chain(handle, m.Wrap))
		if err != nil {
			t.Fatal(err)
		}
		reg := prometheus.NewRegistry()
		reg.MustRegister(m.Collector(r))
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		families, _ := reg.Gather()
		for _, f := range families {
			fmt.Println(f.GetName())
		}
	}
	_ = test // func TestBilling(t *testing.T)
}
