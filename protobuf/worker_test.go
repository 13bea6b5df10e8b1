package protobuf_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/protobuf"
	"github.com/ackfloor/ackfloor/protobuf/example/orderpb"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// Through a server and a worker: what can be decoded is handled, with what its publisher wrote, and the rest lies in the dead letters as undecodable.
func TestThroughAWorker(t *testing.T) {
	s := testutil.Server(t)
	nc := s.Conn(t)
	s.Stream(t, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	good, err := protobuf.NewMsg("orders.new", order)
	if err != nil {
		t.Fatal(err)
	}
	bad, json := *good, *good
	bad.Data = good.Data[1:]
	json.Data, json.Header = text(t, order), map[string][]string{"content-type": {"application/json"}}
	for _, m := range []*nats.Msg{good, &bad, &json} {
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	var calls testutil.Recorder
	r, err := worker.New(nc, worker.Config{Stream: "ORDERS", Consumer: "billing", ExitWhenIdle: true, Logger: zap.NewNop()},
		calls.Wrap(protobuf.Handler(func(_ context.Context, o *orderpb.Order, _ *ackfloor.Message) error {
			if o.OrderId != "2002" || len(o.Lines) != 1 {
				return errors.New("another order")
			}
			return nil
		})))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if c := r.Status().Counts; c.Acked != 2 || c.DeadLettered != 1 || calls.Distinct() != 3 {
		t.Errorf("%+v after calls of %v", c, calls.Sequences())
	}
	stream, err := js.Stream(t.Context(), "ORDERS_DLQ")
	if err != nil {
		t.Fatal(err)
	}
	letter, err := stream.GetMsg(t.Context(), 1)
	if err != nil || letter.Header.Get("Ackfloor-Reason") != "undecodable" {
		t.Errorf("the letter: %+v, %v", letter, err)
	}
}
