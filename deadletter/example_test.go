package deadletter_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/nats-io/nats.go"
)

// replayTimeouts sends back what timed out in the last day, now that the database is up again.
func replayTimeouts(ctx context.Context, nc *nats.Conn) error {
	letters, err := deadletter.Open(ctx, nc, "ORDERS_DLQ", "")
	if err != nil {
		return err
	}
	filter := deadletter.Filter{Stream: "ORDERS", Reason: deadletter.ReasonTimedOut, State: deadletter.StateOpen, Since: time.Now().Add(-24 * time.Hour)}
	for l, err := range letters.List(ctx, filter) {
		if err != nil {
			return err
		}
		replay, err := letters.Replay(ctx, l)
		if err != nil {
			return err
		}
		fmt.Printf("%s %d %q after %d attempts: replayed: %v\n", l.Consumer, l.MessageSequence, l.Error, l.Attempts, !replay.Already)
	}
	return nil
}

// Listing the letters of a stream and sending some of them back to the consumer that failed.
func Example() {
	nc, stop := natsWithLetters()
	defer stop()
	if err := replayTimeouts(context.Background(), nc); err != nil {
		log.Fatal(err)
	}
	// Output:
	// inventory 17 "the database does not answer" after 10 attempts: replayed: true
}

// What a worker does: prepare, and write before the message is terminated.
func ExampleWriter() {
	nc, stop := natsServer()
	defer stop()
	ctx := context.Background()

	config := deadletter.Config{Name: "ORDERS_DLQ", Stream: "ORDERS", Consumer: "inventory", Create: true}
	prepared, err := deadletter.Prepare(ctx, nc, config)
	if err != nil {
		log.Fatal(err)
	}
	for _, w := range prepared.Warnings {
		log.Print(w)
	}
	letter := &deadletter.Letter{
		Subject: "orders.new", Stream: "ORDERS", Consumer: "inventory", MessageSequence: 17, Published: time.Now().Add(-time.Minute),
		Data: []byte(`{"id":`), Deliveries: 1, Attempts: 1, Reason: deadletter.ReasonUndecodable, Error: "unexpected end of JSON input",
	}
	w := deadletter.NewWriter(nc, config)
	for range 2 { // a second time changes nothing
		if err := w.Write(ctx, letter); err != nil {
			log.Fatal(err)
		}
	}
	letters, err := deadletter.Open(ctx, nc, "ORDERS_DLQ", "")
	if err != nil {
		log.Fatal(err)
	}
	for l, err := range letters.List(ctx, deadletter.Filter{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(l.Sequence, l.Consumer, l.Subject, l.MessageSequence, l.Reason, l.State)
	}
	// Output: 1 inventory orders.new 17 undecodable open
}
