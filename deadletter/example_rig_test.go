package deadletter_test

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// natsServer is a server for an example, which has no testing.TB to give to testutil.
func natsServer() (nc *nats.Conn, stop func()) {
	dir, err := os.MkdirTemp("", "deadletter-example")
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true})
	if err != nil {
		log.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		log.Fatal("the server does not start")
	}
	if nc, err = nats.Connect(s.ClientURL()); err != nil {
		log.Fatal(err)
	}
	return nc, func() {
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
		if err := os.RemoveAll(dir); err != nil {
			log.Fatal(err)
		}
	}
}

// natsWithLetters is a server with two dead letters.
func natsWithLetters() (*nats.Conn, func()) {
	nc, stop := natsServer()
	ctx := context.Background()
	config := deadletter.Config{Name: "ORDERS_DLQ", Stream: "ORDERS", Consumer: "inventory", Create: true}
	if _, err := deadletter.Prepare(ctx, nc, config); err != nil {
		log.Fatal(err)
	}
	w := deadletter.NewWriter(nc, config)
	for seq, reason := range map[uint64]string{17: deadletter.ReasonTimedOut, 21: deadletter.ReasonUndecodable} {
		err := w.Write(ctx, &deadletter.Letter{
			Subject: "orders.new", Stream: "ORDERS", Consumer: "inventory", MessageSequence: seq, Published: time.Now().Add(-time.Hour),
			Data: []byte(`{"id":1}`), Deliveries: 11, Attempts: 10, Reason: reason, Error: "the database does not answer",
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	return nc, stop
}
