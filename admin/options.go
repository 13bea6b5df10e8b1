package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/worker"
	"go.uber.org/zap"
)

// Options are what a program adds to the status page. The zero value is that of HTTP.
type Options struct {
	// Handlers are served beside the page, by path: "/metrics". One whose path ends with a slash takes all below it. They get GET and HEAD only, and
	// have a minute to answer.
	Handlers map[string]http.Handler
	// Runners are others of this process, to show and to count for the probes too.
	Runners []*worker.Runner
	// Hosts are further names by which the page may be called, without a port: "worker.example.com". The name that it listens on, localhost and
	// IP addresses are let in always; other names are refused, since a page of another site can have its name point here.
	Hosts []string
	// Every is how often the server is asked while somebody looks; 1s by default. While nobody does, it is asked every 15 s, or every Every if
	// that is longer.
	Every time.Duration
	// Logger says where the page is; by default the logger of the Runner's Config.
	Logger *zap.Logger
}

// HTTP serves the status page and the probes of a Runner at Config.HTTPAddr, WORKER_HTTP_ADDR. It is a part for worker.Main. An address without a
// host, ":8080", is that port of 127.0.0.1; name 0.0.0.0 or [::] for all interfaces. "" and "off" serve nothing. An address that can't be
// listened on is an error at once. It answers until the Runner has drained.
func HTTP(ctx context.Context, r *worker.Runner) error { return With(Options{})(ctx, r) }

// With is HTTP with options.
func With(o Options) worker.Part {
	return func(ctx context.Context, r *worker.Runner) error {
		c := r.Config()
		if c.HTTPAddr == "" || c.HTTPAddr == "off" {
			<-ctx.Done()
			return nil
		}
		if o.Logger == nil {
			o.Logger = c.Logger
		}
		addr, host, err := listenAddr(c.HTTPAddr)
		if err != nil {
			return err
		}
		if host != "" {
			o.Hosts = append([]string{host}, o.Hosts...)
		}
		return serve(ctx, addr, Handler(o, append([]*worker.Runner{r}, o.Runners...)...))
	}
}

// listenAddr is the address to listen on, and the host that it names.
func listenAddr(a string) (addr, host string, err error) {
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		return "", "", fmt.Errorf("admin: address %q: %w", a, err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), host, nil
}

// Limits of a server of ours. A handler in the server of a user keeps those that it can by itself: the deadlines of answers, and how many listen.
const (
	headerTimeout = 5 * time.Second  // for a request's headers
	readTimeout   = 10 * time.Second // for a whole request
	idleTimeout   = 30 * time.Second // of a connection without a request
	headerBytes   = 16 << 10         // of a request
	connections   = 64               // at once
	closingGrace  = time.Second      // for open answers, once the worker has ended
)

func serve(ctx context.Context, addr string, s *Site) error {
	srv := &http.Server{Addr: addr, Handler: s, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerBytes - 4096, // net/http allows 4 KiB more than it is told
		ErrorLog:       quiet,
		BaseContext: func(l net.Listener) context.Context {
			s.log.Info("the status page is served", zap.String("url", "http://"+l.Addr().String()+"/"))
			return context.WithoutCancel(ctx) // answers under way may end when the worker has
		}}
	limited(srv, connections)
	watching, ended := make(chan error, 1), make(chan struct{})
	within, stop := context.WithCancel(ctx)
	defer func() { stop(); <-ended }()
	go func() { defer close(ended); watching <- s.Run(within) }()
	err := shutdown.HTTP("admin", srv, closingGrace).Run(within)
	stop()
	return errors.Join(wrap(err), <-watching)
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("admin: %w", err)
}

// bare is a host as it is compared: without brackets, port and the root's dot, in lower case.
func bare(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
