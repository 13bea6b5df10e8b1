// Command analytics keeps which pages are loaded and which inputs are filled in, since the beginning of 2026, in Parquet files by the hour, and sums them up.
//
//	analytics                      the service
//	analytics -report              a summary of all that is in the files, as text, JSON and a chart
//	analytics -bench 1000000       a measurement, with a server of its own, in a folder of its own
package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/ackfloor/ackfloor/examples/internal/shop"
	"github.com/ackfloor/ackfloor/shutdown"
)

func main() {
	if len(os.Args) > 1 && slices.Contains([]string{"-h", "-help", "--help"}, os.Args[1]) {
		fmt.Print(usage) // and then the worker's variables
	}
	if len(os.Args) > 1 && slices.Contains([]string{"-report", "--report", "-bench", "--bench"}, os.Args[1]) {
		// The background context belongs here: this is where the process begins.
		ctx, _ := shutdown.Notify(context.Background(), nil)
		err := command(ctx, os.Args[1:])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(shutdown.ExitCode(err))
	}
	shop.Main(shop.Service{
		Consumer: "analytics",
		Filter:   "events.page_loaded,events.input_changed",
		Start:    "time:2026-01-01T00:00:00Z",
		Defaults: map[string]string{
			"WORKER_BATCH_SIZE":   "5000",
			"WORKER_BATCH_LINGER": "500ms",
			"WORKER_CONCURRENCY":  "2", // one batch is encoded while another one's file reaches the disk
		},
		Open: open,
	})
}
