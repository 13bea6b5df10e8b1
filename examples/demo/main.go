// Command demo shows the three services at once: a NATS server, shop traffic, and inventory, email and analytics, each a process of its own with its own cursor on the stream
// EVENTS. In a terminal, keys stop, kill and start any of them, the server too, and one sees each go on where it was. Without a terminal it does the same by itself, as
// lines. It has no cursor of its own: it only looks.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
	"golang.org/x/term"
)

// settings are what the flags say.
type settings struct {
	rate   float64       // events a second
	run    time.Duration // how long it runs; 0: until it is told to stop, or as a line program until its schedule is over
	dir    string        // where the server and the services keep their files
	bin    string        // where the services' programs are; "": they are built
	record string        // a file for what the schedule shows
	plain  bool          // lines, also in a terminal
}

func main() {
	if addr := os.Getenv(serverVariable); addr != "" {
		os.Exit(serverMain(addr))
	}
	s, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(shutdown.ExitOK)
	case err != nil:
		os.Exit(shutdown.ExitConfig)
	}
	left := &leftovers{}
	// The background context belongs here: this is where the process begins.
	ctx, stop := shutdown.Notify(context.Background(), func(code int) {
		left.kill()
		os.Exit(code)
	})
	hangUp(ctx)
	err = run(ctx, s, os.Stdout, left)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
	}
	os.Exit(shutdown.ExitCode(err))
}

// hangUp makes the end of the terminal a SIGTERM, unless the demo was started to survive it, or has been told to stop already. The end of who reads its lines is an error of
// writing, not a signal that ends it on the spot.
func hangUp(ctx context.Context) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if signal.Ignored(syscall.SIGHUP) {
		return
	}
	closed := make(chan os.Signal, 1)
	signal.Notify(closed, syscall.SIGHUP)
	go func() {
		select {
		case <-ctx.Done():
		case <-closed:
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Signal(syscall.SIGTERM)
			}
		}
	}()
}

func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.SetOutput(out)
	f.Float64Var(&s.rate, "rate", 20, "events of the shop a second; keys + and - change it")
	f.DurationVar(&s.run, "for", 0, "how long it runs, from when all is up; 0: until q or Ctrl-C, and without a terminal until its schedule is over")
	f.StringVar(&s.dir, "dir", filepath.Join(".ackfloor", "demo"), "where the server and the services keep their files; emptied at the start")
	f.StringVar(&s.bin, "bin", "", "where the programs of the services are; without it they are built")
	f.StringVar(&s.record, "record", "", "run the schedule and write what it shows to this file")
	f.BoolVar(&s.plain, "plain", false, "lines instead of the screen, also in a terminal")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if f.NArg() > 0 || s.rate < 0 || s.rate > 10000 || s.run < 0 {
		fmt.Fprintln(out, "demo: it takes flags only; -rate from 0 to 10000, -for from 0")
		return s, errors.New("usage")
	}
	return s, nil
}

// run starts everything, shows it until ctx ends or it is over, and ends everything: the services drain before the server stops.
func run(ctx context.Context, s settings, out io.Writer, left *leftovers) (err error) {
	var record *os.File
	if s.record != "" { // before anything is started, for all of it would be in vain
		if record, err = os.Create(s.record); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, record.Close()) }()
	}
	d, err := newDemo(ctx, s, out, left)
	if d == nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if s.run > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.run)
		defer cancel()
	}
	switch {
	case record != nil:
		d.pages()
		return d.schedule(ctx, steps, &recording{record})
	case s.plain || !term.IsTerminal(int(os.Stdout.Fd())) || !term.IsTerminal(int(os.Stdin.Fd())):
		d.pages()
		return d.schedule(ctx, steps, &lines{out: out})
	}
	return d.screen(ctx)
}
