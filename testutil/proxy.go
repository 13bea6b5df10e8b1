package testutil

import (
	"net"
	"strconv"
	"sync"
	"testing"
)

// Proxy stands between clients and a server and breaks their connections on demand. Clients connect to its URL.
type Proxy struct {
	address string // where it listens
	target  string // where the server listens

	mu       sync.Mutex
	listener net.Listener          // nil while it is down
	conns    map[net.Conn]struct{} // both sides of each pair
	open     chan struct{}         // closed while bytes may flow
	ended    sync.WaitGroup        // every goroutine
}

// Proxy starts a TCP proxy in front of the server. It ends with the test.
func (s *S) Proxy(t testing.TB) *Proxy {
	t.Helper()
	if s.bubble {
		t.Fatal("testutil: there is no TCP in a bubble, so no Proxy: take testutil.Server, outside the bubble")
	}
	return newProxy(t, net.JoinHostPort(host, strconv.Itoa(s.opts.Port)))
}

// Proxy starts a TCP proxy in front of the server. It ends with the test.
func (p *P) Proxy(t testing.TB) *Proxy {
	t.Helper()
	return newProxy(t, net.JoinHostPort(host, strconv.Itoa(p.port)))
}

func newProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{
		address: net.JoinHostPort(host, strconv.Itoa(freePort(t))),
		target:  target,
		conns:   map[net.Conn]struct{}{},
		open:    make(chan struct{}),
	}
	close(p.open)
	if err := p.listen(); err != nil {
		t.Fatalf("testutil: the proxy can't listen: %v", err)
	}
	t.Cleanup(func() {
		p.Down()
		p.Release()
		p.ended.Wait()
	})
	return p
}

// URL is where the proxy listens.
func (p *Proxy) URL() string { return "nats://" + p.address }

// Hold stops the bytes, both ways; connections stay open, and new ones are accepted and silent. What was on its way stays
// here until Release.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
		p.open = make(chan struct{})
	default: // held already
	}
}

// Release lets the bytes flow again, in their order.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}

// Cut closes every connection; bytes on their way are lost. New ones are accepted at once.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// Down closes every connection and refuses new ones until Up.
func (p *Proxy) Down() {
	p.mu.Lock()
	l := p.listener
	p.listener = nil
	p.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
	p.Cut()
}

// Up accepts connections again after Down. It panics if its port was taken meanwhile.
func (p *Proxy) Up() {
	if err := p.listen(); err != nil {
		panic("testutil: the proxy can't come up again: " + err.Error())
	}
}

func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		return err
	}
	p.listener = l
	p.ended.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // Down
			}
			p.serve(l, client)
		}
	})
	return nil
}

// serve connects client with the server, unless the proxy went down meanwhile.
func (p *Proxy) serve(l net.Listener, client net.Conn) {
	upstream, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != l {
		_, _ = client.Close(), upstream.Close()
		return
	}
	p.conns[client], p.conns[upstream] = struct{}{}, struct{}{}
	p.ended.Go(func() { p.pump(client, upstream) })
	p.ended.Go(func() { p.pump(upstream, client) })
}

// pump copies one way until either side closes, then closes both.
func (p *Proxy) pump(from, to net.Conn) {
	defer func() {
		_, _ = from.Close(), to.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, from)
		delete(p.conns, to)
	}()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		p.waitOpen()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// waitOpen returns when bytes may flow.
func (p *Proxy) waitOpen() {
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	<-open
}
