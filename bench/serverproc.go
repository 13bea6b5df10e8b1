package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// serverVersion is that of the server that testutil links; a test compares them.
const serverVersion = "2.15.3"

// serverBinary returns given, or builds a nats-server, once on a machine. It is kept where testutil.ServerBinary keeps its own,
// which can't be called outside a test.
func serverBinary(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no directory to keep nats-server in, give one with -server: %w", err)
	}
	dir := filepath.Join(cache, "ackfloor-testutil", serverVersion)
	name := "nats-server"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	binary := filepath.Join(dir, name)
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	fmt.Fprintf(os.Stderr, "building nats-server %s, once\n", serverVersion)
	cmd := exec.Command("go", "install", "github.com/nats-io/nats-server/v2@v"+serverVersion)
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), "GOBIN="+tmp, "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOWORK=off", "GOOS=", "GOARCH=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return binary, os.Rename(filepath.Join(tmp, name), binary)
}

// natsServer is a nats-server process with JetStream, which can be stopped and started again on the same port with the same store.
type natsServer struct {
	binary string
	store  string
	file   string // its configuration, "" for none
	port   int
	args   []string
	cmd    *exec.Cmd
	ended  chan struct{}
}

// newServer takes a port and a store for a server, in a directory of dir of its own. args are further arguments of nats-server.
func newServer(binary, dir, name string, args ...string) (*natsServer, error) {
	store, err := os.MkdirTemp(dir, "ackfloor-bench-")
	if err != nil {
		return nil, err
	}
	port, err := testutil.FreePort()
	if err != nil {
		return nil, err
	}
	args = append([]string{"-js", "-a", "127.0.0.1", "-p", strconv.Itoa(port), "-sd", store, "-n", name, "-l", filepath.Join(store, "log")}, args...)
	return &natsServer{binary: binary, store: store, port: port, args: args}, nil
}

func (s *natsServer) url() string { return "nats://127.0.0.1:" + strconv.Itoa(s.port) }
func (s *natsServer) pid() string { return strconv.Itoa(s.cmd.Process.Pid) }

// start starts the process and does not wait until it answers.
func (s *natsServer) start() error {
	cmd, ended := exec.Command(s.binary, s.args...), make(chan struct{})
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	s.cmd, s.ended = cmd, ended
	return nil
}

// stop ends the process with a signal, or kills it when that takes too long, and returns when it has ended.
func (s *natsServer) stop(sig os.Signal) {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig)
	select {
	case <-s.ended:
	case <-time.After(20 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	s.cmd = nil
}

// remove ends the process and removes its files.
func (s *natsServer) remove() {
	s.stop(os.Interrupt)
	_ = os.RemoveAll(s.store)
	if s.file != "" {
		_ = os.Remove(s.file)
	}
}

// failed is err with what the server wrote.
func (s *natsServer) failed(err error) error {
	log, _ := os.ReadFile(filepath.Join(s.store, "log"))
	return fmt.Errorf("%w\n%s", err, log)
}

// startServer starts a nats-server with JetStream on a free port and a store of its own, and waits until JetStream answers.
// pid is its process id. stop ends it and removes the store.
func startServer(binary, dir string) (url, pid string, stop func(), err error) {
	s, err := newServer(binary, dir, "bench")
	if err != nil {
		return "", "", nil, err
	}
	if err := s.start(); err != nil {
		return "", "", nil, err
	}
	if err := awaitServer(s.url(), s.ended); err != nil {
		err = s.failed(err)
		s.remove()
		return "", "", nil, err
	}
	return s.url(), s.pid(), s.remove, nil
}

func awaitServer(url string, ended <-chan struct{}) error {
	limit := time.After(15 * time.Second)
	for {
		err := answers(url)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return errors.New("nats-server ended at once")
		case <-limit:
			return fmt.Errorf("nats-server does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func answers(url string) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err = js.AccountInfo(ctx)
	return err
}
