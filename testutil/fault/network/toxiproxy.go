package network

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/ackfloor/ackfloor/testutil/fault"
)

const variable = "ACKFLOOR_FAULT_NETWORK" // the address at which Toxiproxy takes orders

func init() {
	address := os.Getenv(variable)
	if address == "" {
		return
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		fmt.Fprintf(os.Stderr, "network: %s: %v\n", variable, err)
		os.Exit(78)
	}
	log := zerolog.New(os.Stderr).Level(zerolog.WarnLevel)
	toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), log).Listen(host, port) // it ends with the parent
	os.Exit(1)
}

// toxic is what Toxiproxy calls so: something that happens to the bytes of one way.
type toxic struct {
	Name       string           `json:"name"`
	Type       string           `json:"type"`
	Stream     Direction        `json:"stream"`
	Toxicity   float64          `json:"toxicity"`
	Attributes map[string]int64 `json:"attributes"`
}

// order tells Toxiproxy what to do, by its HTTP interface.
func (p *Proxy) order(method, path string, what any) error {
	body, err := json.Marshal(what)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, "http://"+p.api+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, _ := io.ReadAll(resp.Body)
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return nil
}

// again closes every connection, and makes the proxy anew, as it is to be now: where Toxiproxy does not do so, in another process.
func (p *Proxy) again() {
	if p.closed {
		return
	}
	if p.order("DELETE", "/proxies/nats", nil) == nil && p.make() == nil {
		return
	}
	if err := p.restart(); err != nil {
		panic(fmt.Sprintf("network: the proxy can't be started again: %v", err))
	}
}

// make makes the proxy with the toxics that it is to have. One that is down is made and refuses connections.
func (p *Proxy) make() error {
	type proxy struct {
		Name     string `json:"name"`
		Listen   string `json:"listen"`
		Upstream string `json:"upstream"`
		Enabled  bool   `json:"enabled"`
	}
	self := proxy{Name: "nats", Listen: p.listen, Upstream: p.target}
	if err := p.order("POST", "/proxies", self); err != nil {
		return err
	}
	for _, t := range p.toxics {
		if err := p.order("POST", "/proxies/nats/toxics", t); err != nil {
			return err
		}
	}
	if p.down {
		return nil
	}
	self.Enabled = true
	return p.order("POST", "/proxies/nats", self)
}

// restart puts a new process into the place of the old one. Under p.mu.
func (p *Proxy) restart() error {
	if p.process != nil {
		p.process.Kill()
		<-p.process.Ended()
	}
	var err error
	for range 3 { // somebody else may have taken the port of its interface
		if p.api, err = freeAddress(); err != nil {
			return err
		}
		if p.process, err = (fault.Child{Env: []string{variable + "=" + p.api}}).Start(); err != nil {
			return err
		}
		if err = p.ready(); err == nil {
			go p.mind(p.process)
			return nil
		}
		p.process.Kill()
		<-p.process.Ended()
	}
	return err
}

// ready waits until Toxiproxy takes orders, and gives it the proxy.
func (p *Proxy) ready() error {
	limit := time.Now().Add(20 * time.Second)
	for {
		err := p.order("GET", "/version", nil)
		if err == nil {
			return p.make()
		}
		select {
		case <-p.process.Ended():
			return fmt.Errorf("it ended: %s", p.process.Output())
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(limit) {
			return err
		}
	}
}

// mind replaces a process that has ended by itself.
func (p *Proxy) mind(process *fault.Process) {
	<-process.Ended()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == process && !p.closed {
		p.again()
	}
}
