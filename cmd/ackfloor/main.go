// Command ackfloor is for the people who look after workers: it lists, shows, replays and removes the dead letters, what they could
// not handle, shows where the consumers of a stream stand, prints which rights a worker needs, and tries whether it could start. See
// docs/howto-dead-letters.md, docs/howto-cursors.md and docs/howto-permissions.md, and --help.
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
