// Command ackfloor is for the people who look after what workers could not handle: it lists, shows, replays and removes
// dead letters. See docs/howto-dead-letters.md, and ackfloor dead-letters --help.
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
