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
	"maps"
	"net/http"
	"os"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/admin"
	"github.com/ackfloor/ackfloor/metrics"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/systemd"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Service is one of the examples: who it is, which events it wants and from where, and what it does with them. All but
// the work are defaults, which the WORKER_ variables override.
type Service struct {
	Consumer string            // its durable consumer on EVENTS; also its name on the screen
	Filter   string            // subjects, comma-separated
	Start    string            // where a new consumer starts: all, new, last, seq:N, time:RFC3339
	Defaults map[string]string // of further variables
	Handler  ackfloor.Handler  // what it does; or
	Open     func(ctx context.Context, e Env) (Work, error)
}

// Env is what a service finds when it opens what it works with.
type Env struct {
	NC     *nats.Conn
	JS     jetstream.JetStream
	Config worker.Config
	Dir    string // for its files: .ackfloor in the working folder; it is there
	Say    func(format string, args ...any)
}

// Work is what a service does, once what it needs is open.
type Work struct {
	Handler ackfloor.Handler      // one message at a time; or
	Batch   ackfloor.BatchHandler // many
	Config  func(*worker.Config)  // sets what no variable can: Key, Gate, Retry
	Parts   []shutdown.Part       // run beside, and stop after the worker has drained, in this order
	Close   func() error          // closes what was opened, last
}

// Main runs the service until SIGINT or SIGTERM and exits: 0 when it drained, else a code of package shutdown.
func Main(s Service) {
	s.setDefaults()
	if len(os.Args) > 1 {
		worker.Main(ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { return nil })) // -h and healthcheck; it refuses everything else
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
func (s Service) run(ctx context.Context) (err error) {
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
	js, err := cfg.Connection.JetStream(nc)
	if err != nil {
		return err
	}
	if cfg.Stream == streamName && cfg.Bind != worker.BindExisting {
		if err := prepare(ctx, js, cfg.StartupTimeout, say); err != nil {
			return unlessStopped(ctx, err)
		}
	}
	work := Work{Handler: s.Handler}
	if s.Open != nil {
		if err := os.MkdirAll(filesDir, 0o700); err != nil {
			return err
		}
		if work, err = s.Open(ctx, Env{NC: nc, JS: js, Config: cfg, Dir: filesDir, Say: say}); err != nil {
			return unlessStopped(ctx, err)
		}
		if work.Close != nil {
			defer func() { err = errors.Join(err, work.Close()) }()
		}
	}
	return s.work(ctx, nc, cfg, work, say)
}

// work runs the Runner, and beside it what shows it: the screen; and the status page and the metrics, where WORKER_HTTP_ADDR says so.
func (s Service) work(ctx context.Context, nc *nats.Conn, cfg worker.Config, work Work, say func(string, ...any)) error {
	if work.Config != nil {
		work.Config(&cfg)
	}
	observed, err := metrics.New(metrics.Options{})
	if err != nil {
		return err
	}
	d := newDisplay(say)
	var r *worker.Runner
	if work.Batch != nil {
		r, err = worker.NewBatch(nc, cfg, d.batches(work.Batch))
	} else {
		r, err = worker.New(nc, cfg, ackfloor.Chain(work.Handler, observed.Wrap, d.middleware))
	}
	if err != nil {
		return err
	}
	d.runner, d.cfg = r, cfg
	registry := prometheus.NewRegistry()
	page := admin.With(admin.Options{Handlers: map[string]http.Handler{"/metrics": promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}})
	beside := func(p worker.Part) func(context.Context) error {
		return func(ctx context.Context) error { return p(ctx, r) }
	}
	parts := []shutdown.Part{{Name: s.Consumer, Run: r.Run}} // drains first
	parts = append(parts, work.Parts...)
	return shutdown.Run(ctx, append(parts,
		shutdown.Part{Name: "metrics", Run: beside(observed.Part(registry))},
		shutdown.Part{Name: "status page", Run: beside(page)},
		shutdown.Part{Name: "systemd", Run: beside(systemd.Notify)},
		shutdown.Part{Name: "display", Run: d.run}, // sees the end of it
	)...)
}

// setDefaults sets the variables that are not set, or set to nothing.
func (s Service) setDefaults() {
	defaults := map[string]string{
		"WORKER_STREAM":    streamName,
		"WORKER_CONSUMER":  s.Consumer,
		"WORKER_FILTER":    s.Filter,
		"WORKER_START":     s.Start,
		"WORKER_LOG_LEVEL": "warn", // the screen belongs to the progress; info says what the worker decides

		"WORKER_DEAD_LETTER_BYTES": "67108864", // 64 MiB: a server sets this aside, and the disk of a small machine has to have it
	}
	maps.Copy(defaults, s.Defaults)
	for name, value := range defaults {
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
