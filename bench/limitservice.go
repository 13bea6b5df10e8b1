package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// What the handlers of the mode limit call: a web service over a loopback connection.
const (
	serviceTime    = 50 * time.Millisecond  // of one call, when a worker of the service has it
	serviceQueue   = 256                    // calls that wait for a worker; more are refused with 503
	serviceTimeout = 500 * time.Millisecond // after which a caller gives up
)

// service has a number of workers that changes. A call that its caller has given up is worked on all the same, as most services do that learn of it too late.
type service struct {
	mu      sync.Mutex
	free    sync.Cond
	workers int
	busy    int
	waiting int

	url    string
	server *http.Server
	client *http.Client
}

func startService(workers int) (*service, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &service{workers: workers, url: "http://" + l.Addr().String()}
	s.free.L = &s.mu
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	s.client = &http.Client{Timeout: serviceTimeout, Transport: &http.Transport{MaxIdleConns: 256, MaxIdleConnsPerHost: 256}}
	go func() { _ = s.server.Serve(l) }() // it ends with ErrServerClosed
	return s, nil
}

func (s *service) end() error {
	s.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return s.server.Shutdown(ctx)
}

func (s *service) setWorkers(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers = n
	s.free.Broadcast()
}

// ServeHTTP waits for a worker, first come, first served as sync.Cond does, and keeps it for the time of a call.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.take() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	time.Sleep(serviceTime)
	s.mu.Lock()
	s.busy--
	s.free.Signal()
	s.mu.Unlock()
	_, _ = io.WriteString(w, "done")
}

func (s *service) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting >= serviceQueue {
		return false
	}
	s.waiting++
	for s.busy >= s.workers {
		s.free.Wait()
	}
	s.waiting--
	s.busy++
	return true
}

var errRefused = errors.New("the service refuses the call")

// call calls the service, as a handler does.
func (s *service) call(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusServiceUnavailable {
		return errRefused
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the service says %s", resp.Status)
	}
	return nil
}
