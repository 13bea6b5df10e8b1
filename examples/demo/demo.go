package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor/internal/tape"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	stream     = "EVENTS"
	stopLimit  = 40 * time.Second // for a service to drain, above its grace
	lookLimit  = 400 * time.Millisecond
	readyLimit = 30 * time.Second
	ackWait    = "3s" // not the usual 30s: what one that was killed held comes back while one looks
)

var services = []string{"inventory", "email", "analytics"}

// demo is the server, the three services, the shop's traffic, and the eye on them.
type demo struct {
	server   *process
	services []*process
	traffic  *traffic
	reader   *tape.Reader
	nc       *nats.Conn
	log      *os.File
	seen     atomic.Pointer[tape.Tape] // last
	stop     context.CancelFunc        // of the traffic
	over     sync.WaitGroup
	built    string // a folder to be removed
}

func newDemo(ctx context.Context, s settings, out io.Writer) (_ *demo, err error) {
	if _, err := os.Stat(filepath.Join(s.dir, mark)); err == nil {
		_ = os.RemoveAll(s.dir) // one of an earlier run
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, mark), nil, 0o600); err != nil {
		return nil, err
	}
	d := &demo{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if d.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	if s.bin == "" {
		fmt.Fprintln(out, "building the three services …")
		if d.built, err = build(ctx); err != nil {
			return nil, err
		}
		s.bin = d.built
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	d.server = &process{name: "server", path: self, dir: dir, env: []string{serverVariable + "=" + addr}, log: d.log}
	if err := d.server.start(); err != nil {
		return nil, err
	}
	url := "nats://" + addr
	if d.nc, err = connect(ctx, url); err != nil {
		return nil, err
	}
	js, err := jetstream.New(d.nc)
	if err != nil {
		return nil, err
	}
	d.reader = tape.NewReader(js, stream, services...)
	if err := restock(ctx, filepath.Join(s.bin, "inventory"+exe), dir); err != nil {
		return nil, err
	}
	for _, name := range services {
		p := &process{name: name, path: filepath.Join(s.bin, name+exe), dir: dir, env: []string{"NATS_URL=" + url, "WORKER_ACK_WAIT=" + ackWait}, log: d.log}
		d.services = append(d.services, p)
		if err := p.start(); err != nil {
			return nil, err
		}
	}
	if err := d.bound(ctx); err != nil {
		return nil, err
	}
	d.traffic = newTraffic(js, s.rate, uint64(time.Now().UnixNano()))
	work, stop := context.WithCancel(ctx)
	d.stop = stop
	d.over.Go(func() { d.traffic.run(work) })
	return d, nil
}

// restock fills the shelves: this shop never runs out.
func restock(ctx context.Context, inventory, dir string) error {
	cmd := exec.CommandContext(ctx, inventory, "-restock", "mug=1000000", "teapot=1000000", "kettle=1000000")
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("restocking: %w: %s", err, text)
	}
	return nil
}

// mark is in each folder that a demo has used, so that no other is emptied.
const mark = "ackfloor-demo"

var exe = map[string]string{"windows": ".exe"}[runtime.GOOS]

// build builds the services, into a folder of its own.
func build(ctx context.Context) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "ackfloor-demo-"); err != nil {
		return "", err
	}
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	for _, name := range services {
		args = append(args, "github.com/ackfloor/ackfloor/examples/"+name)
	}
	if text, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return "", fmt.Errorf("building the services (run this inside the repository, or give -bin): %w\n%s", err, text)
	}
	return dir, nil
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
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
			if l := p.look(); !l.running {
				return fmt.Errorf("%s %s: %s", l.name, l.state, l.last)
			}
		}
		if time.Now().After(end) || !pause(ctx, 100*time.Millisecond) {
			return errors.New("the services do not come up: see the file log in the demo's folder")
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

// close ends everything in order: the traffic, the services, all at once, and the server last.
func (d *demo) close() error {
	var errs []error
	if d.stop != nil {
		d.stop()
		d.over.Wait()
	}
	if d.server != nil && len(d.services) > 0 {
		_ = d.server.start() // without it they would wait for their confirmations
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, p := range d.services {
		all.Go(func() {
			if !p.stop(stopLimit) {
				mu.Lock()
				errs = append(errs, fmt.Errorf("%s did not drain within %v", p.name, stopLimit))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if d.nc != nil {
		d.nc.Close()
	}
	if d.server != nil {
		d.server.stop(stopLimit)
	}
	if d.log != nil {
		_ = d.log.Close()
	}
	if d.built != "" {
		_ = os.RemoveAll(d.built)
	}
	return errors.Join(errs...)
}
