package worker

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/caarlos0/env/v11"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// Part is something that runs beside the Runner of Main and stops after it: a server for probes, tracing. It runs until its
// context ends, which is when the Runner has drained; what it returns then, other than the context's end, fails the process.
type Part func(ctx context.Context, r *Runner) error

// Main is a whole main: it reads the configuration from the environment (prefix WORKER), connects, binds, works, drains on
// SIGTERM or SIGINT, and exits with a code of sysexits (see package shutdown). A second signal ends the process at once. With
// -h it prints the variables with their present values; with the argument healthcheck it asks a running worker of the same environment how it is (/livez, or the
// one that is named: healthcheck readyz), for containers without a shell. It does not return.
func Main(h ackfloor.Handler, parts ...Part) {
	os.Exit(run(single(h), os.Args[1:], os.Stdout, os.Stderr, parts))
}

// MainBatch is Main for a handler of batches.
func MainBatch(h ackfloor.BatchHandler, parts ...Part) {
	os.Exit(run(func(nc *nats.Conn, c Config) (*Runner, error) { return NewBatch(nc, c, h) }, os.Args[1:], os.Stdout, os.Stderr, parts))
}

// build makes the Runner of a main.
type build func(nc *nats.Conn, c Config) (*Runner, error)

func single(h ackfloor.Handler) build {
	return func(nc *nats.Conn, c Config) (*Runner, error) { return New(nc, c, h) }
}

func run(b build, args []string, stdout, stderr io.Writer, parts []Part) int {
	flags := flag.NewFlagSet(os.Args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { usage(stdout, defaultPrefix, env.ToMap(os.Environ())) }
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return shutdown.ExitOK
	case err != nil:
		return shutdown.ExitConfig
	case flags.Arg(0) == "healthcheck":
		return healthcheck(context.Background(), flags.Args()[1:], stdout, stderr)
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "unexpected argument %q: the worker is configured by its environment, see -h\n", flags.Arg(0))
		return shutdown.ExitConfig
	}
	ctx, _ := shutdown.Notify(context.Background(), nil) // the signals are kept to the end: a second one has to end the process with its own code
	log, err := runMain(ctx, b, parts)
	switch {
	case err != nil && log != nil:
		log.Error("ended with an error", zap.String("error", shown(err.Error())), zap.Int("exit_code", shutdown.ExitCode(err)))
	case err != nil:
		for line := range strings.Lines(redact(err.Error()) + "\n") {
			fmt.Fprintln(stderr, printable(strings.TrimSuffix(line, "\n")))
		}
	}
	return shutdown.ExitCode(err)
}

// runMain returns the logger once there is work to log, for the error that ends the process.
func runMain(ctx context.Context, b build, parts []Part) (*zap.Logger, error) {
	cfg, err := FromEnv("")
	if err != nil {
		return nil, err
	}
	var wrong *ConfigError
	if _, err := b(nil, cfg); errors.As(err, &wrong) && !slices.Equal(wrong.Problems, []string{nilConnection}) {
		return nil, err // what is wrong beside the connection is told before that is made
	}
	log, err := NewLogger(cfg)
	if err != nil {
		return nil, err
	}
	cfg.Logger, cfg.Connection.Logger = log, log
	if len(parts) == 0 && cfg.HTTPAddr != "" && cfg.HTTPAddr != off {
		log.Warn("HTTP_ADDR is set, and nothing serves there: give Main a part that does, admin.HTTP", zap.String("addr", cfg.HTTPAddr))
	}
	nc, err := Connect(ctx, cfg.Connection)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil
		}
		return nil, err
	}
	defer nc.Close()
	r, err := b(nc, cfg)
	if err != nil {
		return nil, err
	}
	steps := []shutdown.Part{{Name: "worker", Run: r.Run}}
	for i, p := range parts {
		steps = append(steps, shutdown.Part{Name: fmt.Sprintf("part %d", i+1), Run: func(ctx context.Context) error { return p(ctx, r) }})
	}
	return log, shutdown.Run(ctx, steps...)
}

// RunAll runs several Runners of one process side by side until ctx ends, each on its own; then all drain at the same time. One that
// ends with an error makes the others drain, and so does none that ends because it is idle. The errors are joined.
func RunAll(ctx context.Context, runners ...*Runner) error {
	parts := make([]shutdown.Part, 0, len(runners))
	for _, r := range runners {
		parts = append(parts, shutdown.Part{Name: r.cfg.Consumer, Run: r.Run})
	}
	return shutdown.Run(ctx, shutdown.Together("runners", parts...))
}
