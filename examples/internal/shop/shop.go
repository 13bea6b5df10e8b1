// Package shop is what the examples have in common: a NATS server for those who have none, the stream EVENTS with eight
// events of a shop in it, and what they show on the screen. A service's own part is its handler and its Service.
//
// The variables are those of the worker (WORKER_*, NATS_*; -h lists them) and one more:
//
//	ACKFLOOR_EXAMPLE_ADDR   where the examples' own server listens when NATS_URL is not set; 127.0.0.1:4222 by default
package shop

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/worker"
)

// Service is one of the examples: who it is, which events it wants and from where, and what it does with them. All but
// the handler are defaults, which the WORKER_ variables override.
type Service struct {
	Consumer string // its durable consumer on EVENTS; also its name on the screen
	Filter   string // subjects, comma-separated
	Start    string // where a new consumer starts: all, new, last, seq:N, time:RFC3339
	Handler  ackfloor.Handler
}

// Main runs the service until SIGINT or SIGTERM and exits: 0 when it drained, else a code of package shutdown.
func Main(s Service) {
	s.setDefaults()
	if len(os.Args) > 1 {
		worker.Main(s.Handler) // prints the table of variables for -h and refuses everything else
	}
	// The background context belongs here: this is where the process begins.
	ctx, _ := shutdown.Notify(context.Background(), nil)
	err := s.run(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", s.Consumer, err)
	}
	os.Exit(shutdown.ExitCode(err))
}

// run is a service in the explicit way: a server, FromEnv, Connect, New, Run. What it opens is closed in reverse: the Runner has
// drained before the connection closes, and the server stops last.
func (s Service) run(ctx context.Context) error {
	cfg, err := worker.FromEnv("")
	if err != nil {
		return err
	}
	log, err := worker.NewLogger(cfg)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	cfg.Logger, cfg.Connection.Logger = log, log
	say := func(format string, args ...any) { fmt.Printf(s.Consumer+": "+format+"\n", args...) }

	if os.Getenv("NATS_URL") == "" && os.Getenv("NATS_URL_FILE") == "" {
		srv, err := openServer(ctx, cfg.StartupTimeout, say)
		if err != nil {
			return unlessStopped(ctx, err)
		}
		defer srv.close()
		cfg.Connection.URL = srv.url
	} else {
		say("uses the server that NATS_URL names")
	}
	nc, err := worker.Connect(ctx, cfg.Connection)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	defer nc.Close()
	if cfg.Stream == streamName && cfg.Bind != worker.BindExisting {
		js, err := jetStream(nc, cfg.Connection)
		if err != nil {
			return err
		}
		if err := prepare(ctx, js, cfg.StartupTimeout, say); err != nil {
			return unlessStopped(ctx, err)
		}
	}
	d := newDisplay(say)
	r, err := worker.New(nc, cfg, ackfloor.Chain(s.Handler, d.middleware))
	if err != nil {
		return err
	}
	d.runner, d.cfg = r, cfg
	return shutdown.Run(ctx,
		shutdown.Part{Name: s.Consumer, Run: r.Run}, // drains first
		shutdown.Part{Name: "display", Run: d.run},  // sees the end of it
	)
}

// setDefaults sets the variables that are not set, or set to nothing.
func (s Service) setDefaults() {
	for name, value := range map[string]string{
		"WORKER_STREAM":    streamName,
		"WORKER_CONSUMER":  s.Consumer,
		"WORKER_FILTER":    s.Filter,
		"WORKER_START":     s.Start,
		"WORKER_LOG_LEVEL": "warn", // the screen belongs to the progress; info says what the worker decides
	} {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, value)
		}
	}
}

// unlessStopped is nil where err says no more than that a signal ended the waiting: nothing had begun.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, context.Canceled)) {
		return nil
	}
	return err
}

// exitError is an error with an exit code of package shutdown.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }
func (e *exitError) ExitCode() int { return e.code }

// unavailable says that something is not there, as it may be later on.
func unavailable(format string, args ...any) error {
	return &exitError{shutdown.ExitUnavailable, fmt.Sprintf(format, args...)}
}

// misconfigured says that starting again won't help.
func misconfigured(format string, args ...any) error {
	return &exitError{shutdown.ExitConfig, fmt.Sprintf(format, args...)}
}
