package testutil

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const (
	startLimit = 10 * time.Second
	host       = "127.0.0.1"
)

// S is a nats-server with JetStream in the process of the test: see Server and Bubble.
type S struct {
	Access
	name   string // for the words of a failure
	opts   *server.Options
	bubble bool

	mu      sync.Mutex
	running *server.Server // nil while stopped
}

// Server starts a nats-server with JetStream in this process. It listens on a free port of the loopback interface, keeps
// its store in a temporary directory, logs nothing, and ends with the test. opts may change the server's options before it
// starts.
func Server(t testing.TB, opts ...func(*server.Options)) *S {
	t.Helper()
	s := &S{name: "testutil.Server", opts: serverOptions(t)}
	s.opts.Port = freePort(t)
	s.dial = func(opts ...nats.Option) (*nats.Conn, error) { return nats.Connect(s.URL(), opts...) }
	s.begin(t, opts)
	return s
}

// begin is what Server and Bubble have in common.
func (s *S) begin(t testing.TB, opts []func(*server.Options)) {
	t.Helper()
	s.replicas = 1
	for _, opt := range opts {
		opt(s.opts)
	}
	t.Cleanup(func() {
		s.close()
		s.Stop()
	})
	if err := s.start(); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
}

// serverOptions are those of every server in process.
func serverOptions(t testing.TB) *server.Options {
	t.Helper()
	return &server.Options{
		ServerName:         "testutil",
		Host:               host,
		JetStream:          true,
		StoreDir:           t.TempDir(),
		JetStreamMaxMemory: 1 << 30,
		JetStreamMaxStore:  8 << 30,
		NoLog:              true,
		NoSigs:             true,
	}
}

// URL is where the server listens, also while it is stopped. In a bubble it is a name only: connect with Conn, or with the
// option that InProcess gives.
func (s *S) URL() string {
	if s.bubble {
		return "nats://in-process:4222"
	}
	return "nats://" + net.JoinHostPort(host, strconv.Itoa(s.opts.Port))
}

// StoreDir is the directory of the server's store.
func (s *S) StoreDir() string { return s.opts.StoreDir }

// Server is the server that runs now, for what is not covered here; nil while it is stopped. Start makes a new one.
func (s *S) Server() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// Stop ends the server as SIGTERM does, and waits until it has ended. It does nothing to one that is stopped.
func (s *S) Stop() {
	s.mu.Lock()
	running := s.running
	s.running = nil
	s.mu.Unlock()
	if running != nil {
		running.Shutdown()
		running.WaitForShutdown()
	}
}

// Start starts a server that was stopped, on the same port and with the same store, and returns when it takes connections.
// It panics if that can't be done, since it has no test to fail; so it may be called from any goroutine.
func (s *S) Start() {
	if err := s.start(); err != nil {
		panic(fmt.Sprintf("%s: %v", s.name, err))
	}
}

// Restart is Stop and Start.
func (s *S) Restart() {
	s.Stop()
	s.Start()
}

func (s *S) start() error {
	if s.Server() != nil {
		return errors.New("the server is running already")
	}
	// Not under the lock: whoever waits for a mutex keeps a bubble's time from passing, and a start may need some.
	running, err := startServer(s.opts)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.running = running
	s.mu.Unlock()
	return nil
}

// startServer starts a server with a copy of opts and waits until it takes connections.
func startServer(opts *server.Options) (*server.Server, error) {
	srv, err := server.NewServer(opts.Clone())
	if err != nil {
		return nil, fmt.Errorf("making the server: %w", err)
	}
	srv.ConfigureLogger() // nothing with NoLog
	srv.Start()
	if !srv.ReadyForConnections(startLimit) {
		srv.Shutdown()
		return nil, fmt.Errorf("the server on port %d takes no connections after %v", opts.Port, startLimit)
	}
	if opts.JetStream && !srv.JetStreamEnabled() {
		srv.Shutdown()
		return nil, fmt.Errorf("the server on port %d could not enable JetStream in %s", opts.Port, opts.StoreDir)
	}
	return srv, nil
}
