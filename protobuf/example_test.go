package protobuf_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/protobuf"
	"github.com/ackfloor/ackfloor/protobuf/example/orderpb"
	"github.com/ackfloor/ackfloor/testutil"
	"google.golang.org/protobuf/proto"
)

func ExampleHandler() {
	h := protobuf.Handler(func(ctx context.Context, o *orderpb.Order, m *ackfloor.Message) error {
		fmt.Println("order", o.OrderId, "of", len(o.Lines), "lines")
		return nil
	})

	data, _ := proto.Marshal(&orderpb.Order{OrderId: "2002", Lines: []*orderpb.Line{{Sku: "teapot", Quantity: 12}}})
	fmt.Println(h.Handle(context.Background(), testutil.Message("events.order_placed", data)))

	// A header says that it is JSON.
	fmt.Println(h.Handle(context.Background(), testutil.Message("events.order_placed", `{"orderId":"2003"}`,
		testutil.Header("Content-Type", "application/json"))))

	// What can't be decoded is given up.
	err := h.Handle(context.Background(), testutil.Message("events.order_placed", "no order"))
	fmt.Println(strings.HasPrefix(err.Error(), "ackfloor: can't be decoded"))
	// Output:
	// order 2002 of 1 lines
	// <nil>
	// order 2003 of 0 lines
	// <nil>
	// true
}

func ExampleNewMsg() {
	m, err := protobuf.NewMsg("events.order_placed", &orderpb.Order{OrderId: "2002"})
	fmt.Println(m.Subject, m.Header, len(m.Data), err)
	// js.PublishMsg(ctx, m)

	// Output:
	// events.order_placed map[Content-Type:[application/protobuf]] 6 <nil>
}
