package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
)

// connectFlags say which server is meant, and where the dead letters are, beside the environment.
type connectFlags struct {
	server  string
	creds   string
	timeout time.Duration // for the server to be there, and for each answer
	stream  string        // whose dead letters
	letters string        // the dead-letter stream itself
	as      string        // what the connection is called; "" is of dead-letters
}

const suffix = "_DLQ" // of a dead-letter stream's name, behind that of its stream

// serverFlags are those of every command.
func (c *command) serverFlags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVarP(&c.connect.server, "server", "s", "", "servers, comma-separated (NATS_URL)")
	f.StringVar(&c.connect.creds, "creds", "", "path of a credentials file (NATS_CREDS)")
	f.DurationVar(&c.connect.timeout, "timeout", 5*time.Second, "how long to wait for the server, and for each of its answers")
	_ = cmd.MarkPersistentFlagFilename("creds", "creds")
}

func (c *command) connectFlags(cmd *cobra.Command) {
	c.serverFlags(cmd)
	f := cmd.PersistentFlags()
	f.StringVar(&c.connect.stream, "stream", "", "the stream whose dead letters are meant: those in <stream>_DLQ (WORKER_STREAM)")
	f.StringVar(&c.connect.letters, "dead-letters", "", "the name of the dead-letter stream itself (WORKER_DEAD_LETTER)")
	cmd.MarkFlagsMutuallyExclusive("stream", "dead-letters")
	c.complete(cmd, "stream", c.completeStreams(suffix))
	c.complete(cmd, "dead-letters", c.completeStreams(""))
}

// connection is what the environment says, as a worker reads it, with the flags on top.
func (f connectFlags) connection() (worker.Connection, error) {
	cfg, err := worker.FromEnv("")
	conn := cfg.Connection
	if bad, ok := errors.AsType[*worker.ConfigError](err); ok {
		// What is wrong with a worker's other settings is none of our business; what is wrong with a value that a flag replaces neither.
		problems := slices.DeleteFunc(slices.Clone(bad.Problems), func(p string) bool {
			return !strings.HasPrefix(p, "NATS_") || f.server != "" && strings.HasPrefix(p, "NATS_URL") || f.creds != "" && strings.HasPrefix(p, "NATS_CREDS ")
		})
		if len(problems) > 0 {
			return conn, &worker.ConfigError{Problems: problems}
		}
	}
	if f.server != "" {
		conn.URL = f.server
	}
	if f.creds != "" {
		conn.Creds = f.creds
	}
	conn.Name, conn.Wait, conn.Logger = or(f.as, "ackfloor dead-letters"), f.timeout, nil
	return conn, nil
}

// place is the dead-letter stream, and the connection to its server.
type place struct {
	*deadletter.Store
	name    string
	nc      *nats.Conn
	js      jetstream.JetStream
	timeout time.Duration
}

// open connects and finds the dead-letter stream. The caller closes what it returns.
func (c *command) open(ctx context.Context) (_ *place, err error) {
	if err := errors.Join(c.connect.checkTimeout(), checkName("--stream", c.connect.stream), checkName("--dead-letters", c.connect.letters)); err != nil {
		return nil, err
	}
	p, err := c.reach(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	conn, err := c.connect.connection()
	if err != nil {
		return nil, err
	}
	if p.name, err = c.connect.name(ctx, p); err != nil {
		return nil, err
	}
	limited, cancel := p.within(ctx)
	defer cancel()
	p.Store, err = deadletter.Open(limited, p.nc, p.name, apiPrefix(conn))
	if source, twice := strings.CutSuffix(p.name, suffix+suffix); twice && errors.Is(err, deadletter.ErrNoStream) {
		err = fmt.Errorf("%w: did you mean --stream %s?", err, source)
	}
	if err == nil {
		err = p.check(limited)
	}
	return p, unavailable(err)
}

func (f connectFlags) checkTimeout() error {
	if f.timeout <= 0 {
		return usagef("--timeout is %v: it takes a duration above 0, such as 5s", f.timeout)
	}
	return nil
}

// check refuses a stream that is another's: an empty list would be taken for good news.
func (p *place) check(ctx context.Context) error {
	s, err := p.js.Stream(ctx, p.name)
	if err != nil {
		return err
	}
	cfg := s.CachedInfo().Config
	if cfg.Mirror != nil || len(cfg.Sources) > 0 || slices.ContainsFunc(cfg.Subjects, func(subject string) bool {
		first, _, _ := strings.Cut(subject, ".")
		return first == "dlq" || first == "*" || first == ">"
	}) {
		return nil
	}
	for _, err := range p.List(ctx, deadletter.Filter{}) {
		return err // letters from a time when it took them, or why nobody knows
	}
	hint := fmt.Sprintf(": did you mean --stream %s?", p.name)
	for _, kind := range []string{"KV_", "OBJ_"} {
		hint = suffixIf(!strings.HasPrefix(p.name, kind), hint)
	}
	return unavailablef("stream %s takes no dead letters (none of its subjects is dlq.…)%s", p.name, suffixIf(!strings.HasSuffix(p.name, suffix), hint))
}

// reach connects to the server.
func (c *command) reach(ctx context.Context) (*place, error) {
	conn, err := c.connect.connection()
	if err != nil {
		return nil, err
	}
	nc, err := worker.Connect(ctx, conn)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.NewWithAPIPrefix(nc, apiPrefix(conn))
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &place{nc: nc, js: js, timeout: c.connect.timeout}, nil
}

func (p *place) close() { p.nc.Close() }

// within limits one request.
func (p *place) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, p.timeout, unavailablef("the server did not answer within %v", p.timeout))
}

func apiPrefix(c worker.Connection) string {
	switch {
	case c.APIPrefix != "":
		return strings.TrimSuffix(c.APIPrefix, ".")
	case c.Domain != "":
		return "$JS." + c.Domain + ".API"
	}
	return jetstream.DefaultAPIPrefix
}

// name finds out which dead-letter stream is meant: the flags say it, else the environment, else there is only one.
func (f connectFlags) name(ctx context.Context, p *place) (string, error) {
	env, stream := os.Getenv("WORKER_DEAD_LETTER"), os.Getenv("WORKER_STREAM")
	switch {
	case f.letters != "":
		return f.letters, nil
	case f.stream != "":
		return f.stream + suffix, nil
	case env == "off":
		return "", usagef("WORKER_DEAD_LETTER is off, so the worker of this environment writes no dead letters: say --stream or --dead-letters")
	case env != "":
		return env, nil
	case stream != "":
		return stream + suffix, nil
	}
	names, err := p.streams(ctx, suffix)
	switch {
	case err != nil:
		return "", unavailablef("which dead-letter stream? The server does not list its streams (%w): say --stream or --dead-letters", err)
	case len(names) == 0:
		return "", unavailablef("there is no stream whose name ends in %s: say --dead-letters if it has another name", suffix)
	case len(names) > 1:
		return "", usagef("there are several dead-letter streams, %s: say which with --dead-letters", strings.Join(names, ", "))
	}
	return names[0], nil
}

// streams lists the names of streams that end in something, sorted.
func (p *place) streams(ctx context.Context, ending string) ([]string, error) {
	limited, cancel := p.within(ctx)
	defer cancel()
	lister := p.js.StreamNames(limited)
	var names []string
	for name := range lister.Name() {
		if strings.HasSuffix(name, ending) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, lister.Err()
}

// unavailable gives the errors of a dead-letter stream that is not there their exit code.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	_, denied := errors.AsType[*deadletter.PermissionError](err)
	for _, e := range []error{deadletter.ErrNoStream, deadletter.ErrFull, deadletter.ErrReadOnly, deadletter.ErrTaken, context.DeadlineExceeded, nats.ErrTimeout,
		nats.ErrNoResponders, nats.ErrConnectionClosed} {
		if denied || errors.Is(err, e) {
			return unavailablef("%w", err)
		}
	}
	return err
}
