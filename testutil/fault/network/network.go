// Package network breaks the network between clients and one nats-server: a proxy stands between them, and does on demand what a bad network
// does. It is Toxiproxy, in a process of its own. See package testutil/fault for what else can break, and how to see what comes of it.
//
//	proxy := network.New(t, server.URL())
//	// … a worker on proxy.URL()
//	proxy.BlackHole()
//	// … the worker hears nothing, and its connection stays open
//	proxy.Heal()
//
// A client of a cluster learns of the other servers and goes to them past the proxy, unless it is made with nats.IgnoreDiscoveredServers.
//
// That process is the binary itself, started again: where the environment variable ACKFLOOR_FAULT_NETWORK is set, a program with this package in
// it is a proxy and nothing else. Toxiproxy 2.5 is not made to have its connections changed while they come and go: it may panic then, or wait
// for ever. The process is replaced when it does.
package network

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil/fault"
)

// Direction is one way through a Proxy.
type Direction string

// The two directions.
const (
	ToServer Direction = "upstream"
	ToClient Direction = "downstream"
)

// Proxy stands between clients and a server. What was broken stays so until Heal; a second fault comes on top of the first. Its methods may be
// called from any goroutine. They panic where Toxiproxy can't be started any more, since they have no test to fail.
type Proxy struct {
	url            string
	listen, target string

	mu      sync.Mutex
	process *fault.Process
	api     string  // where it takes orders
	toxics  []toxic // that are in it
	down    bool
	spoilt  bool // what went through the connections that are open makes no sense any more
	closed  bool
}

// New starts a proxy in front of the server with that URL, such as testutil.Server gives; it ends with the test.
func New(t testing.TB, server string) *Proxy {
	t.Helper()
	p, err := Open(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Open is New for a program. Close ends the proxy.
func Open(server string) (*Proxy, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("network: %q is not the URL of one server", server)
	}
	p := &Proxy{target: u.Host}
	if p.listen, err = freeAddress(); err != nil {
		return nil, err
	}
	u.Host = p.listen
	p.url = u.String()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.restart(); err != nil {
		return nil, fmt.Errorf("network: starting the proxy: %w", err)
	}
	return p, nil
}

// freeAddress is one on which nobody listens, with a port below those that Linux gives to outgoing connections: so that it is still free when
// the proxy has been down.
func freeAddress() (string, error) {
	var err error
	for range 100 {
		var l net.Listener
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(12000+rand.IntN(20000)))
		if l, err = net.Listen("tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", fmt.Errorf("network: no port to listen on: %w", err)
}

// URL is where the proxy listens, with what else the server's URL has.
func (p *Proxy) URL() string { return p.url }

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	process := p.process
	p.mu.Unlock()
	process.Kill()
	<-process.Ended()
}

// Cut closes every connection; bytes on their way are lost. New ones are accepted at once, unless the proxy is down.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.down {
		p.again()
	}
}

// Down closes every connection, and refuses new ones until Heal.
func (p *Proxy) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	p.again()
}

// BlackHole loses every byte, both ways. Connections stay open, and new ones are accepted and silent; Heal closes them.
func (p *Proxy) BlackHole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spoilt = true
	p.poison("timeout", map[string]int64{"timeout": 0}, ToServer, ToClient)
}

// HalfOpen loses every byte that goes one way; the other way they flow. Connections stay open; Heal closes them.
func (p *Proxy) HalfOpen(lost Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spoilt = true
	p.poison("timeout", map[string]int64{"timeout": 0}, lost)
}

// Latency makes every byte take d longer, each way, give or take up to jitter.
func (p *Proxy) Latency(d, jitter time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.poison("latency", map[string]int64{"latency": d.Milliseconds(), "jitter": jitter.Milliseconds()}, ToServer, ToClient)
}

// Slow lets through so many kilobytes a second, each way, of each connection.
func (p *Proxy) Slow(kilobytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.poison("bandwidth", map[string]int64{"rate": kilobytes}, ToServer, ToClient)
}

// ResetMidFrame closes every connection, and from then on resets each new one (RST) when so many bytes have gone through that way: mostly in the middle
// of a frame of the protocol.
func (p *Proxy) ResetMidFrame(bytes int64, way Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spoilt = true
	// Toxiproxy has a connection closed by RST when it was made while there is a toxic reset_peer; with a toxicity of 0 this one does nothing else.
	p.set(toxic{Name: "reset_peer", Type: "reset_peer", Stream: way, Attributes: map[string]int64{"timeout": 0}})
	p.set(toxic{Name: "limit_data", Type: "limit_data", Stream: way, Toxicity: 1, Attributes: map[string]int64{"bytes": bytes}})
	p.again()
}

// Heal makes the network whole again. Connections in which bytes were lost are closed, as the rest of what they carry makes no sense.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	live := !p.spoilt && !p.down
	before := p.toxics
	p.toxics, p.spoilt, p.down = nil, false, false
	if live && !slices.ContainsFunc(before, func(t toxic) bool { return p.order("DELETE", "/proxies/nats/toxics/"+t.Name, nil) != nil }) {
		return
	}
	p.again()
}

// poison adds a toxic for each of the ways; one of the same kind that is there is changed.
func (p *Proxy) poison(kind string, attributes map[string]int64, ways ...Direction) {
	for _, way := range ways {
		t := toxic{Name: kind + "_" + string(way), Type: kind, Stream: way, Toxicity: 1, Attributes: attributes}
		path := "/proxies/nats/toxics"
		if p.set(t) {
			path += "/" + t.Name
		}
		if !p.down && p.order("POST", path, t) != nil {
			p.again()
		}
	}
}

// set keeps a toxic, and tells whether it takes the place of one.
func (p *Proxy) set(t toxic) bool {
	at := slices.IndexFunc(p.toxics, func(o toxic) bool { return o.Name == t.Name })
	if at < 0 {
		p.toxics = append(p.toxics, t)
		return false
	}
	p.toxics[at] = t
	return true
}

// Fault is a fault for a fault.Schedule: breaks is called, such as p.BlackHole, and Heal after about as long as long.
func (p *Proxy) Fault(name string, every, long time.Duration, breaks func()) fault.Fault {
	return fault.Fault{Name: name, Every: every, Of: p, Do: func(ctx context.Context, draw *rand.Rand) error {
		timer := time.NewTimer(time.Duration((0.5 + draw.Float64()) * float64(long)))
		defer timer.Stop()
		breaks()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		p.Heal()
		return nil
	}}
}
