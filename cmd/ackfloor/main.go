// Command ackfloor is for the people who look after workers: it lists, shows, replays and removes the dead letters, what they could
// not handle, and shows where the consumers of a stream stand. See docs/howto-dead-letters.md and docs/howto-cursors.md, and --help.
package main

import (
	"context"
	"os"

	"github.com/ackfloor/ackfloor/shutdown"
)

func main() {
	ctx, _ := shutdown.Notify(context.Background(), nil) // kept to the end: a second signal ends the process at once, with its code
	os.Exit(run(ctx, newScreen(os.Stdin, os.Stdout, os.Stderr), os.Args[1:]))
}
