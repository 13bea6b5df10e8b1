package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

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

// startServer starts a nats-server with JetStream on a free port and a store of its own, and waits until JetStream answers.
// pid is its process id. stop ends it and removes the store.
func startServer(binary, dir string) (url, pid string, stop func(), err error) {
	store, err := os.MkdirTemp(dir, "ackfloor-bench-")
	if err != nil {
		return "", "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	cmd := exec.Command(binary, "-js", "-a", "127.0.0.1", "-p", strconv.Itoa(port), "-sd", store, "-n", "bench", "-l", filepath.Join(store, "log"))
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return "", "", nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	stop = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		_ = os.RemoveAll(store)
	}
	url = "nats://127.0.0.1:" + strconv.Itoa(port)
	if err := awaitServer(url, ended); err != nil {
		log, _ := os.ReadFile(filepath.Join(store, "log"))
		stop()
		return "", "", nil, fmt.Errorf("%w\n%s", err, log)
	}
	return url, strconv.Itoa(cmd.Process.Pid), stop, nil
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
