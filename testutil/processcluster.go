package testutil

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// electionLimit is how long a server of a cluster may take to be ready. Behind the kill -9 of a leader the others wait four to nine seconds until they elect
// another (nats-server 2.15, raft.go), and there is a group for the cluster, for each stream and for each consumer.
const electionLimit = time.Minute

// PC is a cluster of nats-servers with JetStream, each a process of its own: see ProcessCluster.
type PC struct {
	Access
	servers []*P
	monitor []int // the port of each server's monitoring
}

// ProcessCluster starts n nats-servers as ServerProcess does, joined by routes. It returns when the cluster has a leader and all servers are current. n is
// 3 where nothing else is needed; the streams that Events makes have n replicas (5 at most). args are further arguments of each.
func ProcessCluster(t testing.TB, n int, args ...string) *PC {
	t.Helper()
	c, err := newPC(ServerBinary(t), t.TempDir(), n, args)
	if err != nil {
		t.Fatalf("testutil.ProcessCluster: %v", err)
	}
	t.Cleanup(func() {
		c.Close()
		if t.Failed() {
			for i, p := range c.servers {
				t.Logf("the end of the output of server %d:\n%s", i, p.output())
			}
		}
	})
	if err := c.begin(); err != nil {
		t.Fatalf("testutil.ProcessCluster: %v", err)
	}
	return c
}

// NewProcessCluster is ProcessCluster for a program: binary is that of nats-server, and dir, which must exist, is where stores and outputs are
// kept. Close ends it.
func NewProcessCluster(binary, dir string, n int, args ...string) (*PC, error) {
	c, err := newPC(binary, dir, n, args)
	if err == nil {
		if err = c.begin(); err != nil {
			c.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("testutil.NewProcessCluster: %w", err)
	}
	return c, nil
}

func newPC(binary, dir string, n int, args []string) (*PC, error) {
	c := &PC{}
	c.replicas = min(n, 5)
	c.dial = func(opts ...nats.Option) (*nats.Conn, error) { return nats.Connect(c.URL(), opts...) }
	var clusterPorts []int
	var routes []string
	for i := range n {
		own := filepath.Join(dir, serverName(i))
		p, err := newP(binary, own, serverName(i), args)
		if err == nil {
			err = os.Mkdir(own, 0o755)
		}
		if err != nil {
			return nil, err
		}
		for _, ports := range []*[]int{&c.monitor, &clusterPorts} {
			port, err := FreePort()
			if err != nil {
				return nil, err
			}
			*ports = append(*ports, port)
		}
		p.answers, p.limit = func() error { return c.answers(i) }, electionLimit
		c.servers = append(c.servers, p)
		routes = append(routes, "nats-route://"+net.JoinHostPort(host, strconv.Itoa(clusterPorts[i])))
	}
	for i, p := range c.servers {
		p.args = append(p.args, "--cluster_name", "testutil", "--cluster", routes[i], "--routes", strings.Join(routes, ","), "-m", strconv.Itoa(c.monitor[i]))
	}
	return c, nil
}

// begin starts all servers and waits for the cluster.
func (c *PC) begin() error {
	var all []*process
	for _, p := range c.servers {
		running, err := p.launch()
		if err != nil {
			return err
		}
		all = append(all, running)
	}
	for i, p := range c.servers {
		if err := p.ready(all[i]); err != nil {
			return fmt.Errorf("server %d: %w", i, err)
		}
	}
	var err error
	if !poll(electionLimit, func() bool { err = c.places(); return err == nil }) {
		return fmt.Errorf("no stream can be made on %d servers after %v: %w", len(c.servers), electionLimit, err)
	}
	return nil
}

// places makes a stream on as many servers as streams will have, and deletes it: that is what shows that their leader knows all of them well enough.
func (c *PC) places() error {
	return c.probe(2*requestLimit, func(ctx context.Context, js jetstream.JetStream) error {
		const name = "testutil_ready"
		_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name}, Storage: jetstream.MemoryStorage, Replicas: c.replicas})
		if err != nil {
			return err
		}
		if err := js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
		return nil
	})
}

// Close kills all servers, and closes what the helpers have opened. Their files stay.
func (c *PC) Close() {
	c.close()
	var all sync.WaitGroup
	for _, p := range c.servers {
		all.Go(p.Kill)
	}
	all.Wait()
}

// URL is where the servers listen, those that are stopped too, comma-separated as nats.Connect takes it.
func (c *PC) URL() string {
	var urls []string
	for _, p := range c.servers {
		urls = append(urls, p.URL())
	}
	return strings.Join(urls, ",")
}

// Size is the number of servers.
func (c *PC) Size() int { return len(c.servers) }

// Server is server i, which is named "n<i>": to stop, kill, signal and start it. Its Start returns when the server is current, if more than half
// of the servers run, and else when it takes connections.
func (c *PC) Server(i int) *P { return c.servers[i] }

// Running tells how many of the servers run.
func (c *PC) Running() int {
	n := 0
	for _, p := range c.servers {
		if running := p.current(); running != nil {
			select {
			case <-running.ended:
			default:
				n++
			}
		}
	}
	return n
}

// ConsumerLeader returns the number of the server that leads the consumer; it waits for an election to end.
func (c *PC) ConsumerLeader(t testing.TB, stream, consumer string) int {
	t.Helper()
	return serverNumber(t, c.consumerLeader(t, stream, consumer), len(c.servers))
}

// StreamLeader returns the number of the server that leads the stream; it waits for an election to end.
func (c *PC) StreamLeader(t testing.TB, stream string) int {
	t.Helper()
	return serverNumber(t, c.streamLeader(t, stream), len(c.servers))
}

// MoveConsumerLeader makes the consumer's leader step down and waits until another server leads it and answers; it returns that one's number.
func (c *PC) MoveConsumerLeader(t testing.TB, stream, consumer string) int {
	t.Helper()
	return serverNumber(t, c.moveConsumerLeader(t, stream, consumer), len(c.servers))
}

// answers returns nil when server i is as ready as it can be: it is current with what the cluster has decided, and knows a leader and all of the
// cluster. (One that is stopped before it has heard of all others counts a majority of its own when it starts again.) Without a majority that
// can't be, and connections are enough.
func (c *PC) answers(i int) error {
	if c.Running() <= len(c.servers)/2 {
		nc, err := nats.Connect(c.servers[i].URL(), nats.Timeout(requestLimit))
		if err == nil {
			nc.Close()
		}
		return err
	}
	var about struct {
		Meta *struct {
			Leader string `json:"leader"`
			Size   int    `json:"cluster_size"`
		} `json:"meta_cluster"`
	}
	if err := c.look(i, "/jsz", &about); err != nil {
		return err
	}
	if about.Meta == nil || about.Meta.Leader == "" || about.Meta.Size < len(c.servers) {
		return errors.New("it knows no leader, or not all of the cluster")
	}
	return c.look(i, "/healthz?js-server-only=true", nil)
}

// look asks the monitoring of server i.
func (c *PC) look(i int, path string, answer any) error {
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + net.JoinHostPort(host, strconv.Itoa(c.monitor[i])) + path)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}
