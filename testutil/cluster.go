package testutil

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// C is a cluster of nats-servers with JetStream in the process of the test: see Cluster.
type C struct {
	Access
	opts []*server.Options

	mu      sync.Mutex
	running []*server.Server // nil where one is stopped
}

// Cluster starts n nats-servers with JetStream in this process, joined by routes, on free ports of the loopback interface
// and with a temporary store each. It returns when the cluster has a leader and all servers are current. n is 3 where
// nothing else is needed; the streams that Events makes have n replicas (5 at most). opts may change the options of each
// server before it starts.
func Cluster(t testing.TB, n int, opts ...func(*server.Options)) *C {
	t.Helper()
	c := &C{running: make([]*server.Server, n)}
	c.replicas = min(n, 5)
	c.dial = func(opts ...nats.Option) (*nats.Conn, error) { return nats.Connect(c.URL(), opts...) }
	var routes []*url.URL
	for i := range n {
		o := serverOptions(t)
		o.ServerName = serverName(i)
		o.Port = freePort(t)
		o.Cluster = server.ClusterOpts{Name: "testutil", Host: host, Port: freePort(t)}
		routes = append(routes, &url.URL{Scheme: "nats", Host: net.JoinHostPort(host, strconv.Itoa(o.Cluster.Port))})
		c.opts = append(c.opts, o)
	}
	for _, o := range c.opts {
		o.Routes = routes
		for _, opt := range opts {
			opt(o)
		}
	}
	t.Cleanup(c.stop)
	for i := range n {
		if err := c.start(i); err != nil {
			t.Fatalf("testutil.Cluster: %v", err)
		}
	}
	if err := c.settle(); err != nil {
		t.Fatalf("testutil.Cluster: %v", err)
	}
	return c
}

// URL is where the servers listen, those that are stopped too, comma-separated as nats.Connect takes it.
func (c *C) URL() string {
	var urls []string
	for i := range c.opts {
		urls = append(urls, c.ServerURL(i))
	}
	return strings.Join(urls, ",")
}

// ServerURL is where server i listens.
func (c *C) ServerURL(i int) string {
	return "nats://" + net.JoinHostPort(host, strconv.Itoa(c.opts[i].Port))
}

// Servers returns the servers that run now, nil in the place of one that is stopped. Server i is named "n<i>".
func (c *C) Servers() []*server.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.running)
}

// StopServer ends server i as SIGTERM does, and waits until it has ended. It does nothing to one that is stopped.
func (c *C) StopServer(i int) {
	c.mu.Lock()
	running := c.running[i]
	c.running[i] = nil
	c.mu.Unlock()
	if running != nil {
		running.Shutdown()
		running.WaitForShutdown()
	}
}

// StartServer starts server i, which was stopped, on the same port and with the same store. It returns when it takes
// connections and, if more than half of the servers run, when these have a leader and are current. It panics if that can't be
// done, since it has no test to fail; so it may be called from any goroutine.
func (c *C) StartServer(i int) {
	err := c.start(i)
	if err == nil {
		err = c.settle()
	}
	if err != nil {
		panic(fmt.Sprintf("testutil.Cluster: starting server %d: %v", i, err))
	}
}

func (c *C) start(i int) error {
	if c.Servers()[i] != nil {
		return errors.New("the server is running already")
	}
	running, err := startServer(c.opts[i])
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.running[i] = running
	c.mu.Unlock()
	return nil
}

// settle waits until the servers that run have a leader, are current and know all of the cluster. One that was stopped before
// it had heard of all others counts a majority of its own when it starts again, and may never see a leader. Without a
// majority settle does not wait.
func (c *C) settle() error {
	up := slices.DeleteFunc(c.Servers(), func(s *server.Server) bool { return s == nil })
	if len(up) <= len(c.opts)/2 || !up[0].JetStreamEnabled() {
		return nil
	}
	leads := func(s *server.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) >= len(up) }
	behind := func(s *server.Server) bool { return !s.JetStreamIsCurrent() || known(s) < len(c.opts) }
	if !poll(2*startLimit, func() bool { return slices.ContainsFunc(up, leads) && !slices.ContainsFunc(up, behind) }) {
		return fmt.Errorf("%d servers of %d run, and after %v they have no leader or are not current",
			len(up), len(c.opts), 2*startLimit)
	}
	return nil
}

// known tells how many members of the cluster's own Raft group the server knows of, itself included.
func known(s *server.Server) int {
	status := s.Raftz(&server.RaftzOptions{GroupFilter: "_meta_"})
	if status == nil {
		return 0
	}
	for _, groups := range *status {
		for _, group := range groups {
			return group.Size
		}
	}
	return 0
}

func (c *C) stop() {
	c.close()
	var all sync.WaitGroup
	for i := range c.opts {
		all.Go(func() { c.StopServer(i) })
	}
	all.Wait()
}

// ConsumerLeader returns the number of the server that leads the consumer; it waits for an election to end.
func (c *C) ConsumerLeader(t testing.TB, stream, consumer string) int {
	t.Helper()
	return serverNumber(t, c.consumerLeader(t, stream, consumer), len(c.opts))
}

// MoveConsumerLeader makes the consumer's leader step down and waits until another server leads it and answers; it returns
// that one's number. The consumer needs two replicas or more.
func (c *C) MoveConsumerLeader(t testing.TB, stream, consumer string) int {
	t.Helper()
	return serverNumber(t, c.moveConsumerLeader(t, stream, consumer), len(c.opts))
}
