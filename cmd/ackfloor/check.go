package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/internal/denied"
	"github.com/ackfloor/ackfloor/internal/wildcard"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// verdict is what a line of check comes to.
type verdict string

const (
	good     verdict = "ok"
	unwise   verdict = "warn"
	bad      verdict = "FAIL"
	notTried verdict = "not tried"
)

// lineJSON is a line of the output of check with --json.
type lineJSON struct {
	Verdict verdict `json:"verdict"` // ok, warn, FAIL, not tried
	What    string  `json:"what"`    // such as publish, the consumer, configuration
	Subject string  `json:"subject,omitempty"`
	Says    string  `json:"says,omitempty"`
}

// checker is one dry run.
type checker struct {
	*command
	cfg   worker.Config
	wants wants
	nc    *nats.Conn

	consumer *jetstream.ConsumerInfo // nil: it is missing, or not known
	stream   *jetstream.StreamInfo   // likewise
	there    map[string]bool         // of the groups of rights what is there; no entry: not known
	refused  map[string]bool         // subjects
	silent   int                     // of the tries of a probe those that are left out, since nothing answered before
	failed   int
	code     int   // that the worker would exit with
	written  error // of the output
}

func (c *command) check() *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Try, without changing anything, whether a worker could start",
		Long: `Try whether the worker of the present environment (WORKER_*, NATS_*) could start: its configuration, the connection, the stream, the consumer, the
dead letters, the bucket, and each of its permissions. Flags go before the environment. Nothing is made, changed or settled, no message is taken. What
can't be tried that way is said: "not tried".

One line each: ok; warn, what is unwise or done without; FAIL, what keeps the worker from starting or working, and what to allow or to change.

The exit code is the one that the worker would end with: 0 where nothing fails, 69 where something is missing or denied, 78 where the configuration is
wrong. The server's log has a line for each permission that is missing, and for requests that are sent so that they are refused.

` + exitCodes,
		Example: `  ackfloor check
  ackfloor check --stream EVENTS --consumer inventory --filter events.order_placed --bind existing
  ackfloor check --json | jq -r 'select(.verdict == "FAIL") | .says'`,
		Args: cobra.NoArgs,
	}
	c.serverFlags(cmd)
	f.add(c, cmd)
	cmd.Flags().BoolVar(&c.json, "json", false, "JSON, one object a line")
	cmd.RunE = c.runs(func(ctx context.Context, _ []string) error {
		if err := c.connect.checkTimeout(); err != nil {
			return err
		}
		f.values["server"], f.values["creds"] = &c.connect.server, &c.connect.creds
		cfg, err := f.config(cmd, true)
		k := newChecker(c, cfg, f.wants)
		k.run(ctx, err)
		return k.end(ctx)
	})
	return cmd
}

func newChecker(c *command, cfg worker.Config, w wants) *checker {
	return &checker{command: c, cfg: cfg, wants: w, there: make(map[string]bool), refused: make(map[string]bool)}
}

// line writes one.
func (k *checker) line(v verdict, what, subject, format string, args ...any) {
	says := fmt.Sprintf(format, args...)
	if k.json {
		k.written = errors.Join(k.written, k.print(lineJSON{v, what, subject, says}))
		return
	}
	style := k.look(map[verdict]lipgloss.Style{good: green, unwise: yellow, bad: red, notTried: cyan}[v])
	text := strings.TrimSpace(what + " " + subject)
	if says != "" {
		text += ": " + says
	}
	_, err := fmt.Fprintf(k.out, "%s %s\n", style.Render(fmt.Sprintf("%-9s", v)), printable(text))
	k.written = errors.Join(k.written, err)
}

// fail writes a line of what keeps the worker from starting; code is the one that it would exit with.
func (k *checker) fail(code int, what, subject, format string, args ...any) {
	k.failed++
	k.code = max(k.code, code)
	k.line(bad, what, subject, format, args...)
}

// run goes through everything, top-down. What can't be told after a failure is left out.
func (k *checker) run(ctx context.Context, err error) {
	if err != nil {
		k.failAll("configuration", err)
		return
	}
	k.line(good, "configuration", "", "stream %s, consumer %s, bind %s", k.cfg.Stream, k.cfg.Consumer, k.cfg.Bind)
	if !k.reach(ctx) {
		return
	}
	defer k.nc.Close()
	k.variables()
	if !k.mayListen(ctx) {
		return
	}
	for _, r := range rights(k.cfg, k.wants) {
		if ctx.Err() != nil {
			return
		}
		k.try(ctx, r)
	}
	k.things(ctx)
}

// mayListen tries what the worker subscribes to, and tells whether anything else can be tried.
func (k *checker) mayListen(ctx context.Context) bool {
	for _, r := range listens(k.cfg, k.wants) {
		const denied = "denied: allow %q to subscribe; "
		switch refused, err := k.listen(ctx, r); {
		case err != nil:
			k.fail(shutdown.ExitUnavailable, "subscribe", r.subject, "%v", err)
			return false
		case !refused:
			k.line(good, "subscribe", r.subject, "")
		case r.without != "":
			k.line(unwise, "subscribe", r.subject, denied+"else %s", r.subject, r.without)
		default:
			k.fail(shutdown.ExitUnavailable, "subscribe", r.subject, denied+"without it nothing is answered, so nothing else can be tried", r.subject)
			return false
		}
	}
	return true
}

// failAll writes a line for each problem.
func (k *checker) failAll(what string, err error) {
	problems := []string{err.Error()}
	if wrong, ok := errors.AsType[*worker.ConfigError](err); ok {
		problems = wrong.Problems
	}
	for _, p := range problems {
		k.fail(shutdown.ExitCode(err), what, "", "%s", p)
	}
}

// reach connects.
func (k *checker) reach(ctx context.Context) bool {
	conn := k.cfg.Connection
	conn.Name, conn.Wait, conn.Logger = "ackfloor check", k.connect.timeout, nil
	nc, err := worker.Connect(ctx, conn)
	if err != nil {
		if ctx.Err() == nil {
			k.failAll("connection", err)
		}
		return false
	}
	k.nc = nc
	secured := ""
	if _, err := nc.TLSConnectionState(); err == nil {
		secured = ", TLS"
	}
	k.line(good, "connection", "", "%s, nats-server %s%s", nc.ConnectedUrlRedacted(), nc.ConnectedServerVersion(), secured)
	return true
}

// variables warns of those that mean nothing, as the worker does.
func (k *checker) variables() {
	core, logs := observer.New(zap.WarnLevel)
	cfg := k.cfg
	cfg.Logger = zap.New(core)
	nothing := ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { return nil })
	if _, err := worker.New(k.nc, cfg, nothing); err != nil {
		k.failAll("configuration", err)
	}
	for _, e := range logs.All() {
		for _, f := range e.Context {
			k.line(unwise, "configuration", "", "%s", f.String)
		}
	}
}

// try probes one right.
func (k *checker) try(ctx context.Context, r right) {
	switch r.try {
	case trySame:
		return
	case tryNot:
		k.line(notTried, "publish", r.subject, "it would reach whoever listens")
		return
	}
	p := k.probe(ctx, r)
	k.learn(r, p)
	switch {
	case p.denied != nil:
		k.refused[r.subject] = true
		allow := r.subject
		if about, _, _ := denied.Of(p.denied); !wildcard.Covers(allow, about) {
			allow = local(k.cfg, allow)
		}
		k.deny(r, "denied: allow %q to publish", allow)
	case p.silent != nil:
		k.deny(r, "no answer: is the server electing a leader?")
	default:
		k.line(good, "publish", r.subject, "")
	}
}

// deny writes the line of a right that is missing: a failure where the worker can't do without.
func (k *checker) deny(r right, format string, args ...any) {
	there, known := k.there[r.group]
	says := fmt.Sprintf(format, args...)
	switch {
	case r.makes && known && there && !k.toUpdate(r):
		k.line(unwise, "publish", r.subject, "%s; it is needed where that is missing, and it is there", says)
	case r.without != "":
		k.line(unwise, "publish", r.subject, "%s; else %s", says, r.without)
	default:
		k.fail(shutdown.ExitUnavailable, "publish", r.subject, "%s", says)
	}
}

// end says what it comes to.
func (k *checker) end(ctx context.Context) error {
	switch {
	case k.written != nil:
		return k.written
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case k.failed > 0:
		return &coded{k.code, errSaid}
	}
	return nil
}
