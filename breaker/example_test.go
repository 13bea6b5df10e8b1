package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/breaker"
)

func Example() {
	db, err := breaker.New(breaker.Config{
		Failures: 2,
		Delay:    5 * time.Second,
		MaxDelay: time.Minute,
		OnChange: func(c breaker.Change) { fmt.Println("database:", c.From, "to", c.To) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	store := func(context.Context, *ackfloor.Message) error { return errors.New("connection refused") }
	h := ackfloor.Chain(ackfloor.HandlerFunc(store), db.Wrap)

	for seq := uint64(1); seq <= 3; seq++ {
		err := h.Handle(context.Background(), &ackfloor.Message{Stream: "ORDERS", Sequence: seq})
		_, pause := errors.AsType[*ackfloor.PauseError](err)
		fmt.Printf("%d: %v (pause: %v)\n", seq, err, pause)
	}
	// Output:
	// 1: connection refused (pause: false)
	// database: closed to open
	// 2: connection refused (pause: true)
	// 3: breaker: open: connection refused (pause: true)
}

func ExampleConfig_counts() {
	errNoRow := errors.New("no such row") // the database answers: it is no outage
	_, err := breaker.New(breaker.Config{
		Ratio: 0.5, Calls: 20, Window: 10 * time.Second,
		Counts: func(err error) bool { return breaker.Outage(err) && !errors.Is(err, errNoRow) },
	})
	fmt.Println(err)
	// Output: <nil>
}
