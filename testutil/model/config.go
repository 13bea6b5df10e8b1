package model

import "time"

// Config is what a Server is made with.
type Config struct {
	Stream   string   // its one stream,
	Subjects []string // which stores what is published to these
	Replicas int      // 3: the consumer has a leader, which may move; else 1

	// Latency is how long what is sent to a client is under way at the most.
	Latency time.Duration

	// Delivered is called with each delivery, and Settled with each settlement that reaches the consumer, before it is taken. Both are called under
	// the server's lock: they must not call it. Either may be nil.
	Delivered func(Delivery)
	Settled   func(Settlement)

	// Fault is asked of each pull and each settlement that arrives, also while nobody listens, under the server's lock too; nil: all is taken as it should be.
	Fault func(Request) Fault
}

// Delivery is a message on its way to a client.
type Delivery struct {
	Sequence uint64 // in the stream
	Count    uint64 // which delivery of this message it is, from 1
	Client   string // the name of the connection that gets it
	Reply    string // where it is settled
}

// Settlement is what was published to the reply subject of a delivery.
type Settlement struct {
	Client   string // the name of the connection from which it came
	Sequence uint64 // in the stream
	Reply    string // of the delivery
	Body     string // +ACK, -NAK …
}

// Request is what a client sends to the consumer.
type Request struct {
	Client  string // the name of its connection
	Subject string // of a settlement the reply subject of the delivery
	Body    string
	Pull    bool // a pull, else a settlement
}

// Fault is what goes wrong with a Request. The zero value is nothing.
type Fault struct {
	Lost   bool          // nobody hears of it, and there is no answer
	Nobody bool          // nobody listens: 503, where an answer was asked for
	Late   time.Duration // its answer comes so much later; not of a pull
}
