package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/internal/tape"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
)

// cursorFlags are those of cursors.
type cursorFlags struct {
	consumers []string
	watch     bool
	every     time.Duration
	noColour  bool
}

// How often a watch looks.
const (
	everyUsual = time.Second
	everyLeast = 100 * time.Millisecond
)

// elsewhere is how wide the picture is where the output is no terminal.
const elsewhere = 120

func (c *command) cursors() *cobra.Command {
	var f cursorFlags
	cmd := &cobra.Command{
		Use:   "cursors STREAM",
		Short: "Show where the consumers of a stream stand",
		Long: `Show the stream as a tape and where each of its consumers stands on it: what is settled, what is delivered and may be outstanding, what is not
delivered yet; below, the numbers, as nats consumer info has them. The stream is STREAM, else WORKER_STREAM.

With --watch it looks again every second: on a terminal the picture is drawn again in its place; elsewhere a line is printed, with the time, for
each consumer whose numbers have changed. A server that goes away is waited for. Ctrl-C is its ordinary end: the exit code is 0.

The connection is that of the worker, from its environment, as for dead-letters. Looking changes nothing: nobody's cursor moves. It takes the
rights to publish to $JS.API.STREAM.INFO.<STREAM> and to $JS.API.CONSUMER.LIST.<STREAM>, or with --consumer instead of the second to
$JS.API.CONSUMER.INFO.<STREAM>.<NAME>.

` + exitCodes,
		Example: `  ackfloor cursors EVENTS
  ackfloor cursors EVENTS --watch --every 5s
  ackfloor cursors EVENTS --consumer orders --consumer email
  ackfloor cursors EVENTS --json | jq '.cursors[] | select(.unprocessed > 1000) | .consumer'`,
		Args: cobra.MaximumNArgs(1),
	}
	c.serverFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&c.json, "json", false, "JSON, one object a line; times in RFC 3339")
	flags.StringArrayVar(&f.consumers, "consumer", nil, "only this consumer; may be given several times")
	flags.BoolVarP(&f.watch, "watch", "w", false, "look again and again, until Ctrl-C")
	flags.DurationVar(&f.every, "every", everyUsual, "how often, with --watch")
	flags.BoolVar(&f.noColour, "no-color", false, "no colours (NO_COLOR)")
	c.complete(cmd, "every", cobra.NoFileCompletions)
	c.complete(cmd, "consumer", c.completeConsumers)
	cmd.ValidArgsFunction = c.completeAllStreams
	cmd.RunE = c.runs(func(ctx context.Context, args []string) error {
		stream, err := f.check(args, cmd.Flags().Changed("every"), c.connect)
		if err != nil {
			return err
		}
		if f.noColour {
			c.colour = false
		}
		c.connect.as = "ackfloor cursors"
		p, err := c.reach(ctx)
		if err != nil {
			return err
		}
		defer p.close()
		v := &view{command: c, place: p, stream: stream, flags: f, reader: tape.NewReader(p.js, stream, f.consumers...)}
		if len(f.consumers) > 0 {
			v.reader.Only()
		}
		if f.watch {
			return v.watch(ctx)
		}
		return v.once(ctx)
	})
	return cmd
}

// check finds the stream, and refuses what makes no sense before anything is asked of a server.
func (f *cursorFlags) check(args []string, every bool, connect connectFlags) (stream string, err error) {
	if stream = os.Getenv("WORKER_STREAM"); len(args) > 0 {
		stream = args[0]
	}
	if stream == "" {
		return "", usagef("which stream? Its name, or WORKER_STREAM")
	}
	problems := []error{connect.checkTimeout(), checkName("the stream", stream)}
	for _, name := range f.consumers {
		problems = append(problems, checkName("--consumer", name))
		if name == "" {
			problems = append(problems, usagef("--consumer is empty: it takes the name of a consumer"))
		}
	}
	switch {
	case every && !f.watch:
		problems = append(problems, usagef("--every goes with --watch"))
	case f.every < everyLeast:
		problems = append(problems, usagef("--every is %v: it takes a duration from %v", f.every, everyLeast))
	}
	return stream, errors.Join(problems...)
}

// view is a stream that is looked at.
type view struct {
	*command
	place  *place
	stream string
	flags  cursorFlags
	reader *tape.Reader
}

// read asks the server. Its errors have their exit codes.
func (v *view) read(ctx context.Context) (*tape.Tape, error) {
	limited, cancel := v.place.within(ctx)
	defer cancel()
	t, err := v.reader.Read(limited)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		err = unavailablef("stream %q does not exist", v.stream)
	case errors.Is(err, nats.ErrDisconnected):
		err = unavailablef("the connection to the server is lost")
	case errors.Is(err, nats.ErrPermissionViolation):
		err = unavailablef("%w", err)
	}
	return t, unavailable(err)
}

// once shows the tape. A consumer that was named and is not there, or does not answer, is a failure.
func (v *view) once(ctx context.Context) error {
	t, err := v.read(ctx)
	if err != nil {
		return err
	}
	if v.json {
		err = v.print(t)
	} else {
		err = t.Text(v.out, v.drawing())
	}
	if err != nil {
		return err
	}
	var failed []error
	for _, cursor := range t.Cursors {
		if cursor.Error != "" && slices.Contains(v.flags.consumers, cursor.Consumer) {
			failed = append(failed, fmt.Errorf("consumer %q: %s", cursor.Consumer, cursor.Error))
		}
	}
	return errors.Join(failed...)
}

// drawing says how the tape is drawn here.
func (v *view) drawing() tape.TextOptions {
	o := tape.TextOptions{Width: elsewhere, Color: v.colour, ASCII: !speaksUTF8(os.Getenv)}
	if v.outWidth > 0 {
		o.Width = v.outWidth
		if now, _ := v.size(); now > 0 {
			o.Width = now
		}
	}
	return o
}

// speaksUTF8 tells whether a terminal takes more than ASCII: the locale says it, in the order of POSIX. Where nothing says it, it is UTF-8, as everywhere today.
func speaksUTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}

// completeAllStreams completes names of streams of every kind.
func (c *command) completeAllStreams(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.asks(func(ctx context.Context) ([]string, error) {
		p, err := c.reach(ctx)
		if err != nil {
			return nil, err
		}
		defer p.close()
		return p.streams(ctx, "")
	})(cmd, args, typed)
}

// completeConsumers completes names of consumers of the stream that was given.
func (c *command) completeConsumers(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return c.asks(func(ctx context.Context) ([]string, error) {
		stream, err := (&cursorFlags{every: everyUsual}).check(args, false, c.connect)
		if err != nil {
			return nil, err
		}
		p, err := c.reach(ctx)
		if err != nil {
			return nil, err
		}
		defer p.close()
		t, err := tape.NewReader(p.js, stream).Read(ctx)
		if err != nil {
			return nil, err
		}
		var names []string
		for _, cursor := range t.Cursors {
			names = append(names, printable(cursor.Consumer))
		}
		return names, nil
	})(cmd, args, typed)
}
