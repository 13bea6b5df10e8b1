package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor/internal/tape"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	stream     = "EVENTS"
	stopLimit  = 75 * time.Second // for a service to drain: above the grace of each, which is 60s at the most
	lookLimit  = 400 * time.Millisecond
	readyLimit = 30 * time.Second
	ackWait    = "3s" // not the usual 30s: what one that was killed held comes back while one looks
)

var services = []string{"inventory", "email", "analytics"}

// demo is the server, the three services, the shop's traffic, and the eye on them.
type demo struct {
	out      io.Writer
	addr     string // of the server
	server   *process
	services []*process
	traffic  *traffic
	reader   *tape.Reader
	js       jetstream.JetStream
	nc       *nats.Conn
	log      *os.File
	seen     atomic.Pointer[tape.Tape] // last
	stop     context.CancelFunc        // of the traffic
	over     sync.WaitGroup
	left     *leftovers
	unlock   func() // gives the folder back
}

// newDemo starts everything. Where ctx ends before it is up, there is neither a demo nor an error.
func newDemo(ctx context.Context, s settings, out io.Writer, left *leftovers) (*demo, error) {
	d := &demo{out: out, left: left}
	if err := d.open(ctx, s); err != nil {
		if ctx.Err() != nil {
			err = nil
		}
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *demo) open(ctx context.Context, s settings) (err error) {
	dir := ""
	if dir, d.unlock, err = openFolder(ctx, s.dir); err != nil {
		return err
	}
	if d.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return err
	}
	if s.bin == "" {
		fmt.Fprintln(d.out, "building the three services …")
		if s.bin, err = d.left.temp(); err != nil {
			return err
		}
		if err := build(ctx, s.bin); err != nil {
			return err
		}
	} else if s.bin, err = filepath.Abs(s.bin); err != nil {
		return err
	}
	if err := d.startServer(ctx, dir); err != nil {
		return err
	}
	if err := restock(ctx, filepath.Join(s.bin, "inventory"+exe), dir); err != nil {
		return err
	}
	if err := d.startServices(ctx, s.bin, dir); err != nil {
		return err
	}
	if err := d.bound(ctx); err != nil {
		return err
	}
	d.traffic = newTraffic(d.js, s.rate, uint64(time.Now().UnixNano()))
	work, stop := context.WithCancel(ctx)
	d.stop = stop
	d.over.Go(func() { d.traffic.run(work) })
	return nil
}

func (d *demo) startServer(ctx context.Context, dir string) (err error) {
	if d.addr, err = freeAddr(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	d.server = d.left.watch(&process{name: "server", path: self, dir: dir, env: []string{serverVariable + "=" + d.addr}, log: d.log, piped: true})
	if err := d.server.start(ctx); err != nil {
		return err
	}
	if d.nc, err = connect(ctx, "nats://"+d.addr); err != nil {
		return err
	}
	d.js, err = jetstream.New(d.nc)
	return err
}

func (d *demo) startServices(ctx context.Context, bin, dir string) error {
	d.reader = tape.NewReader(d.js, stream, services...)
	for _, name := range services {
		page, err := freeAddr()
		if err != nil {
			return err
		}
		env := []string{"NATS_URL=nats://" + d.addr, "WORKER_ACK_WAIT=" + ackWait, "WORKER_HTTP_ADDR=" + page}
		if name == "email" {
			env = append(env, "EMAIL_RATE=off") // nobody is written to: its letters stay on this machine
		}
		p := d.left.watch(&process{name: name, path: filepath.Join(bin, name+exe), dir: dir, env: env, log: d.log, page: page})
		d.services = append(d.services, p)
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pages says where the services' status pages are.
func (d *demo) pages() {
	for _, p := range d.services {
		fmt.Fprintf(d.out, "status page of %-10s http://%s\n", p.name, p.page)
	}
}

// connect waits until the server is there.
func connect(ctx context.Context, url string) (*nats.Conn, error) {
	var last error
	for end := time.Now().Add(readyLimit); time.Now().Before(end); {
		nc, err := nats.Connect(url, nats.Name("demo"), nats.CustomInboxPrefix("_INBOX_demo"), nats.MaxReconnects(-1), nats.ReconnectWait(200*time.Millisecond), nats.ReconnectBufSize(-1))
		if err == nil {
			return nc, nil
		}
		last = err
		if !pause(ctx, 100*time.Millisecond) {
			return nil, context.Cause(ctx)
		}
	}
	return nil, last
}

// pause waits, and returns false if ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// bound waits until every service has its cursor: so all three see all that happens from here on.
func (d *demo) bound(ctx context.Context) error {
	for end := time.Now().Add(readyLimit); ; {
		t := d.look(ctx)
		if t != nil && len(t.Cursors) >= len(services) {
			return nil
		}
		for _, p := range d.services {
			if !p.look().running {
				return errNotUp
			}
		}
		if time.Now().After(end) || !pause(ctx, 100*time.Millisecond) {
			return errNotUp
		}
	}
}

// look reads the tape; nil while the server is away. Where the server is there and does not answer in time, it is as it was.
func (d *demo) look(ctx context.Context) *tape.Tape {
	if !d.nc.IsConnected() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	if t, err := d.reader.Read(ctx); err == nil {
		d.seen.Store(t)
	}
	return d.seen.Load()
}

// all are the processes, the server last.
func (d *demo) all() []*process { return append(append([]*process(nil), d.services...), d.server) }

// close ends everything in order: the traffic, the services, all at once, and the server last. Its error tells which did not drain, and which had ended by themselves.
func (d *demo) close() error {
	if d.stop != nil {
		d.stop()
		d.over.Wait()
	}
	var errs []error
	if len(d.services) > 0 {
		fmt.Fprintln(d.out, "stopping: the services drain, then the server stops …")
		errs = d.drain()
	}
	if d.nc != nil {
		d.nc.Close()
	}
	if d.server != nil {
		d.server.stop(stopLimit)
		errs = append(errs, d.server.wrong())
	}
	if d.log != nil {
		_ = d.log.Close()
	}
	d.left.remove()
	if d.unlock != nil {
		d.unlock()
	}
	return errors.Join(errs...)
}

// drain stops the services, with a server that listens: without it they would wait for their confirmations.
func (d *demo) drain() []error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit) // what the demo's own waits for is over
	defer cancel()
	errs := []error{d.serves(ctx)}
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, p := range d.services {
		all.Go(func() {
			clean := p.stop(stopLimit)
			mu.Lock()
			defer mu.Unlock()
			if !clean {
				errs = append(errs, fmt.Errorf("%s did not drain within %v", p.name, stopLimit))
			}
			errs = append(errs, p.wrong())
		})
	}
	all.Wait()
	return errs
}

// serves starts the server where it does not run, after it has ended where it is about to, and waits until it listens.
func (d *demo) serves(ctx context.Context) error {
	if err := d.server.start(ctx); err != nil {
		return err
	}
	var dialer net.Dialer
	for {
		c, err := dialer.DialContext(ctx, "tcp", d.addr)
		if err == nil {
			return c.Close()
		}
		if !d.server.look().running || !pause(ctx, 50*time.Millisecond) {
			return fmt.Errorf("the server does not listen again: %w", err)
		}
	}
}
