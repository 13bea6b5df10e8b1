package metrics_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/metrics"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/zap"
)

// A batch is one call, of its first message's kind; each of its messages has an age and an attempt.
func TestBatch(t *testing.T) {
	s := testutil.Server(t)
	s.Stream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}})
	js := s.JetStream(t)
	for range 10 {
		if _, err := js.Publish(t.Context(), "events.a", nil); err != nil {
			t.Fatal(err)
		}
	}
	x, err := metrics.New(metrics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	h := x.WrapBatch(ackfloor.BatchHandlerFunc(func(_ context.Context, b *ackfloor.Batch) error {
		if calls++; calls == 1 {
			return &ackfloor.BatchError{Errors: map[int]error{0: errors.New("not this one")}}
		}
		return nil
	}))
	r, err := worker.NewBatch(s.Conn(t), worker.Config{Stream: "EVENTS", Consumer: "D", Concurrency: 1, BatchSize: 10, RetrySchedule: "10ms", DeadLetter: "off", Records: "off", ExitWhenIdle: true, Logger: zap.NewNop()}, h)
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(x.Collector(r))
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, f := range all {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				if l.GetName() == "outcome" {
					labels = append(labels, l.GetValue())
				}
			}
			if h := m.GetHistogram(); h != nil {
				got[f.GetName()+" "+strings.Join(labels, ",")] += h.GetSampleCount()
			}
		}
	}
	if got["ackfloor_handle_duration_seconds ok"] != uint64(calls-1) || got["ackfloor_handle_duration_seconds failed"] != 1 || got["ackfloor_message_age_seconds "] != 11 {
		t.Errorf("%d calls; observed %v", calls, got)
	}
	if problems, err := promlint.NewWithMetricFamilies(all).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// A handler of batches that panics is counted, and panics on.
func TestBatchThatPanics(t *testing.T) {
	x, err := metrics.New(metrics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("the panic was swallowed")
		}
	}()
	h := x.WrapBatch(ackfloor.BatchHandlerFunc(func(context.Context, *ackfloor.Batch) error { panic("boom") }))
	_ = h.HandleBatch(t.Context(), ackfloor.NewBatch(testutil.Message("a", nil)))
}
