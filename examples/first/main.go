// Command first is the smallest worker: it prints what it is given. The environment says where it works, see -h.
package main

import (
	"context"
	"fmt"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/worker"
)

func main() {
	worker.Main(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
		_, err := fmt.Printf("%s  sequence %d  attempt %d  %s\n", m.Subject, m.Sequence, m.Attempt, m.Data)
		return err
	}))
}
