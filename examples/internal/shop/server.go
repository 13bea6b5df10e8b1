package shop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rogpeppe/go-internal/lockedfile"
)

const (
	addrVariable = "ACKFLOOR_EXAMPLE_ADDR"
	defaultAddr  = "127.0.0.1:4222"
	filesDir     = ".ackfloor" // in the working folder
	storeDir     = filesDir + "/nats"
	lockFile     = filesDir + "/nats.lock" // held by the process whose server works on storeDir

	readyLimit = 10 * time.Second      // for the server to take connections
	lookAgain  = 50 * time.Millisecond // between two looks at the port
	leaveLimit = 2 * time.Second       // for other programs to leave before the server stops
	leaveLook  = 20 * time.Millisecond // between two looks at who is left
)

// natsServer is the server that the examples share: one in this process, or one that was there before.
type natsServer struct {
	url      string
	embedded *server.Server // nil where it was there before
	unlock   func()
	say      func(format string, args ...any)
}

// openServer joins the NATS server on the examples' address, or starts one there. Of several programs that start at once one
// gets to start it and the others join: by the lock in the same folder, by the port in different ones.
func openServer(ctx context.Context, limit time.Duration, say func(string, ...any)) (*natsServer, error) {
	addr := os.Getenv(addrVariable)
	if addr == "" {
		addr = defaultAddr
	}
	host, portText, err := net.SplitHostPort(addr)
	port, numberErr := strconv.ParseUint(portText, 10, 16)
	if err != nil || numberErr != nil || port == 0 || host == "" {
		return nil, misconfigured("%s is %q: it takes host:port, such as %s", addrVariable, addr, defaultAddr)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		unavailable("no server on %s after %v: another program holds %s but does not listen", addr, limit, lockFile))
	defer cancel()
	var lock *storeLock
	defer func() { lock.abandon() }()
	for {
		found, err := probe(ctx, addr)
		switch {
		case err != nil:
			return nil, err
		case found:
			say("joins the NATS server on %s", addr)
			return &natsServer{url: "nats://" + addr}, nil
		case lock == nil:
			if lock, err = lockStore(); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lookAgain):
			continue // somebody else holds the lock: he is about to listen
		case got := <-lock.got:
			if got.err != nil {
				return nil, unavailable("can't lock %s: %v", lockFile, got.err)
			}
			lock = nil
			// Who held it before may have left, or listens by now on an address that is not ours.
			if found, err := probe(ctx, addr); err != nil || found {
				got.unlock()
				if err != nil {
					return nil, err
				}
				continue
			}
			srv, err := startServer(host, int(port))
			if err == nil {
				say("no NATS server on %s: started one here, its files are in %s", addr, storeDir)
				return &natsServer{url: "nats://" + addr, embedded: srv, unlock: got.unlock, say: say}, nil
			}
			got.unlock()
			if found, probeErr := probe(ctx, addr); probeErr != nil || !found {
				return nil, errors.Join(err, probeErr)
			} // else another program was faster
		}
	}
}

// close stops the server of this process; one that was there before goes on. Programs that were told to stop at the same moment
// get a while to leave, so that their last acknowledgments still find a server.
func (s *natsServer) close() {
	if s.embedded == nil {
		return
	}
	began, said := time.Now(), false
	for s.embedded.NumClients() > 0 && time.Since(began) < leaveLimit {
		if !said && time.Since(began) > leaveLimit/10 { // our own connection has gone by now
			said = true
			s.say("other programs use the server: it stops when they have left, after %v at the latest", leaveLimit)
		}
		<-time.After(leaveLook)
	}
	s.embedded.Shutdown()
	s.embedded.WaitForShutdown()
	s.unlock()
}

// startServer starts a server with JetStream in this process and returns when it takes connections.
func startServer(host string, port int) (*server.Server, error) {
	fail := func(err error) (*server.Server, error) {
		return nil, unavailable("can't start a NATS server on %s with its files in %s: %v; set NATS_URL to use another one",
			net.JoinHostPort(host, strconv.Itoa(port)), storeDir, err)
	}
	dir, err := filepath.Abs(storeDir)
	if err != nil {
		return fail(err)
	}
	srv, err := server.NewServer(&server.Options{
		ServerName: "ackfloor-examples",
		Host:       host,
		Port:       port,
		JetStream:  true,
		StoreDir:   dir,
		NoSigs:     true, // signals are the process's, see package shutdown
	})
	if err != nil {
		return fail(err)
	}
	log := &serverLog{}
	srv.SetLogger(log, false, false)
	srv.Start()
	if err := log.fatal(); err == nil && srv.ReadyForConnections(readyLimit) {
		return srv, nil
	}
	srv.Shutdown()
	srv.WaitForShutdown()
	if err := log.fatal(); err != nil {
		return fail(err)
	}
	return fail(fmt.Errorf("it takes no connections after %v", readyLimit))
}

// serverLog keeps why the server could not start, and drops the rest. The server's own logger would end the process.
type serverLog struct {
	mu  sync.Mutex
	err error
}

func (l *serverLog) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *serverLog) Fatalf(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = fmt.Errorf(format, v...)
	}
}

func (*serverLog) Errorf(string, ...any)  {}
func (*serverLog) Warnf(string, ...any)   {}
func (*serverLog) Noticef(string, ...any) {}
func (*serverLog) Debugf(string, ...any)  {}
func (*serverLog) Tracef(string, ...any)  {}

// storeLock is the wait for the lock on storeDir. Two servers on one folder would destroy each other's files, and a server opens its
// files before it listens, so the port alone can't tell. The system frees the lock of a process that has died.
type storeLock struct {
	got  chan lockResult
	gone chan struct{} // closed when nobody waits any more
}

type lockResult struct {
	unlock func()
	err    error
}

func lockStore() (*storeLock, error) {
	if err := os.MkdirAll(filepath.Dir(lockFile), 0o755); err != nil {
		return nil, unavailable("no NATS server, and no place for the files of one: %v; run it in a folder that you may write to, or set NATS_URL", err)
	}
	l := &storeLock{got: make(chan lockResult), gone: make(chan struct{})}
	go func() {
		unlock, err := lockedfile.MutexAt(lockFile).Lock()
		select {
		case l.got <- lockResult{unlock, err}:
		case <-l.gone:
			if err == nil {
				unlock()
			}
		}
	}()
	return l, nil
}

// abandon ends the wait. The lock, should it come one day, is given back at once.
func (l *storeLock) abandon() {
	if l != nil {
		close(l.gone)
	}
}
