package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// servers are several nats-server processes on this machine that belong together.
type servers []*natsServer

// startAll starts them and waits until JetStream can make streams of so many replicas.
func (all servers) startAll(ctx context.Context, replicas int) error {
	for _, s := range all {
		if err := s.start(); err != nil {
			return err
		}
	}
	for _, s := range all {
		if err := awaitServer(s.url(), s.ended); err != nil {
			return s.failed(err)
		}
	}
	nc, err := all.connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	limit := time.Now().Add(30 * time.Second)
	for { // the first stream can be made once all servers know one another
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "READY", Subjects: []string{"READY"}, Replicas: replicas})
		if err == nil || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			err = js.DeleteStream(ctx, "READY")
		}
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(limit) {
			return all[0].failed(fmt.Errorf("the servers don't work together: %w", err))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (all servers) url() string {
	var urls []string
	for _, s := range all {
		urls = append(urls, s.url())
	}
	return strings.Join(urls, ",")
}

// connect connects to any of them, for as long as it takes.
func (all servers) connect(opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(all.url(), append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.Timeout(5 * time.Second)}, opts...)...)
}

func (all servers) remove() {
	for _, s := range all {
		s.remove()
	}
}

// work is that of all processes together.
func (all servers) work() work {
	var sum work
	for _, s := range all {
		w := workOf(s.pid())
		sum.CPU, sum.Reads, sum.Writes = sum.CPU+w.CPU, sum.Reads+w.Reads, sum.Writes+w.Writes
	}
	return sum
}

// clusterOf makes a cluster of n servers; one alone is no cluster.
func clusterOf(binary, dir string, n int) (servers, error) {
	if n == 1 {
		s, err := newServer(binary, dir, "n0")
		return servers{s}, err
	}
	var routes []string
	for range n {
		port, err := testutil.FreePort()
		if err != nil {
			return nil, err
		}
		routes = append(routes, fmt.Sprintf("nats-route://127.0.0.1:%d", port))
	}
	var all servers
	for i, route := range routes {
		s, err := newServer(binary, dir, fmt.Sprint("n", i), "--cluster_name", "bench", "--cluster", strings.Replace(route, "nats-route", "nats", 1), "--routes", strings.Join(routes, ","))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// configured makes a server of a configuration file's text, which is kept in its store.
func configured(binary, dir, name, text string) (*natsServer, error) {
	s, err := newServer(binary, dir, name)
	if err != nil {
		return nil, err
	}
	file := s.store + ".conf"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	s.args, s.file = append(s.args, "-c", file), file
	return s, nil
}

// leafOf makes a hub and a leaf node, each with a JetStream domain of its own: "hub" and "leaf".
func leafOf(binary, dir string) (servers, error) {
	port, err := testutil.FreePort()
	if err != nil {
		return nil, err
	}
	hub, err := configured(binary, dir, "hub", fmt.Sprintf("jetstream: {domain: hub}\nleafnodes: {listen: \"127.0.0.1:%d\"}\n", port))
	if err != nil {
		return nil, err
	}
	leaf, err := configured(binary, dir, "leaf", fmt.Sprintf("jetstream: {domain: leaf}\nleafnodes: {remotes: [{url: \"nats-leaf://127.0.0.1:%d\"}]}\n", port))
	return servers{hub, leaf}, err
}

// superclusterOf makes two clusters of one server each, east and west, joined by gateways.
func superclusterOf(binary, dir string) (servers, error) {
	names := []string{"east", "west"}
	var ports, routes []int
	for range names {
		gateway, err := testutil.FreePort()
		if err != nil {
			return nil, err
		}
		route, err := testutil.FreePort()
		if err != nil {
			return nil, err
		}
		ports, routes = append(ports, gateway), append(routes, route)
	}
	var all servers
	for i, name := range names {
		var others []string
		for j, other := range names {
			others = append(others, fmt.Sprintf("{name: %s, url: \"nats://127.0.0.1:%d\"}", other, ports[j]))
		}
		// JetStream in a cluster asks for a route; the one server's is to itself, which it notices.
		text := fmt.Sprintf("cluster: {name: %s, listen: \"127.0.0.1:%d\", routes: [\"nats-route://127.0.0.1:%d\"]}\n", name, routes[i], routes[i]) +
			fmt.Sprintf("gateway: {name: %s, listen: \"127.0.0.1:%d\", gateways: [%s]}\n", name, ports[i], strings.Join(others, ", "))
		s, err := configured(binary, dir, name, text)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}
