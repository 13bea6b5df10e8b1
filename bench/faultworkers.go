package main

import (
	"context"
	"fmt"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/worker"
)

// faultWorker is one kind of worker.
type faultWorker struct {
	name string
	what string
	run  func(ctx context.Context, j faultJob, handle func(body []byte)) error
}

// faultWorkers are in the order of the table's rows.
func faultWorkers() []faultWorker {
	return []faultWorker{
		{"consume-drain", "Consume with a goroutine for each slot; at SIGTERM Drain, Closed, then the connection's Drain", consumeUntil(true)},
		{"consume-stop", "the same with Stop", consumeUntil(false)},
		{"watermill", "watermill-nats, a handler of a Router for each slot; at SIGTERM Router.Close", routeUntil},
		{"pcgroups", "pcgroups, a member for each slot, max_ack_pending 1: order by partition; at SIGTERM Stop, then StaticMemberStepDown", groupUntil},
		{"ackfloor", "worker.Runner", runUntil(worker.Config{})},
		{"ackfloor-keyed", "worker.Runner, order by 100 keys", runUntil(worker.Config{Key: ackfloor.KeyBySubject(-1)})},
		{"ackfloor-batch", "worker.NewBatch, batches of up to 4", batchUntil},
	}
}

func faultWorkerNamed(name string) (faultWorker, error) {
	for _, w := range faultWorkers() {
		if w.name == name {
			return w, nil
		}
	}
	return faultWorker{}, fmt.Errorf("there is no worker %q for faults", name)
}
