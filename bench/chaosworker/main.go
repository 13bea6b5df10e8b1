// Command chaosworker is a worker for restart schedules: it sleeps WORK_US microseconds a message and appends the message's body to the
// file OUT. It is told where to work by NATS_URL, STREAM, CONSUMER, CONC and ACK_WAIT.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/worker"
)

func main() {
	out, err := os.OpenFile(os.Getenv("OUT"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	us, _ := strconv.Atoi(os.Getenv("WORK_US"))
	for _, v := range [][2]string{{"WORKER_STREAM", "STREAM"}, {"WORKER_CONSUMER", "CONSUMER"}, {"WORKER_CONCURRENCY", "CONC"}, {"WORKER_ACK_WAIT", "ACK_WAIT"}} {
		if s := os.Getenv(v[1]); s != "" {
			_ = os.Setenv(v[0], s)
		}
	}
	worker.Main(ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
		time.Sleep(time.Duration(us) * time.Microsecond)
		_, err := fmt.Fprintf(out, "%s seq=%d attempt=%d pid=%d at=%s\n", m.Data, m.Sequence, m.Attempt, os.Getpid(), time.Now().Format("05.000"))
		return err
	}))
}
