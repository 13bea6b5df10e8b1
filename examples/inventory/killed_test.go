//go:build unix

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	killSeed   = flag.Uint64("kill.seed", 1, "seed of the schedule of TestKilled; 0: by the clock")
	killOrders = flag.Int("kill.orders", 250, "orders of each part of TestKilled")
	killEvery  = flag.Duration("kill.order-every", 8*time.Millisecond, "time between two orders of TestKilled")
)

var articles = []string{"plate", "bowl", "cup", "jug"}

// Orders flow, one in twenty of them published twice, while services and the server are killed with SIGKILL at random moments: one service on SQLite, two on
// PostgreSQL. The duplicate window of the stream is over at once. In the end each order is decided, there is one event of each, what was supplied is on the
// shelf or reserved, and nothing is outstanding.
func TestKilled(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p place) {
		p.dir = filepath.Join(p.dir, ".ackfloor")
		must(t, os.Mkdir(p.dir, 0o700))
		seed := *killSeed
		if seed == 0 {
			seed = uint64(time.Now().UnixNano())
		}
		t.Logf("seed %d", seed)
		f := &flow{place: p, rng: rand.New(rand.NewPCG(seed, 1)), server: testutil.ServerProcess(t), store: p.open(t)}
		js := f.server.JetStream(t)
		stream := eventsStream(t, js)
		for i, sku := range articles { // of the first there is enough, of the others for a part of the orders
			must(t, f.store.restock(t.Context(), []delivery{{sku, int64(*killOrders / (1 + i))}}))
		}
		must(t, f.order(js, 0)) // so that the service finds a stream that is not new, and puts no samples in
		f.run(t, js)
		f.check(t, stream)
	})
}

// flow is one run of TestKilled.
type flow struct {
	place
	rng    *rand.Rand
	server *testutil.P
	store  *store

	services            []*service
	killed, serversLost int
}

// order publishes an order, and again until that is confirmed: it may be in the stream twice then.
func (f *flow) order(js jetstream.JetStream, i int) error {
	data := fmt.Sprintf(`{"order_id":"o%d","sku":%q,"quantity":%d}`, i, articles[i%len(articles)], 1+i%3)
	for end := time.Now().Add(time.Minute); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, err := js.Publish(ctx, "events.order_placed", []byte(data))
		cancel()
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (f *flow) run(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	began := time.Now()
	f.services = append(f.services, f.spawn(t))
	if f.url != "" {
		f.services = append(f.services, f.spawn(t))
	}
	var all sync.WaitGroup
	both := make(chan struct{}) // closed when a service and the server were killed: half of the orders come behind that
	all.Go(func() {
		for i := 1; i < *killOrders; i++ {
			if i == *killOrders/2 {
				select {
				case <-both:
				case <-t.Context().Done():
					return
				}
			}
			for range 1 + (20-i%20)/20 {
				if err := f.order(js, i); err != nil {
					t.Errorf("order %d: %v", i, err)
					return
				}
			}
			time.Sleep(*killEvery)
		}
	})
	between := func(from, to time.Duration) time.Time {
		return time.Now().Add(from + time.Duration(f.rng.Int64N(int64(to-from))))
	}
	nextService, nextServer, nextRestock := between(300*time.Millisecond, 1500*time.Millisecond), between(500*time.Millisecond, 2*time.Second), between(0, time.Second)
	restocking := f.spawn(t, "-restock", "jug=3")
	limit := began.Add(45*time.Second + time.Duration(*killOrders)*(*killEvery+20*time.Millisecond))
	told := false
	for f.decided(t) < *killOrders {
		now := time.Now()
		switch {
		case now.After(limit):
			t.Fatalf("%d of %d orders are decided after %v", f.decided(t), *killOrders, time.Since(began))
		case now.After(nextService):
			i := f.rng.IntN(len(f.services))
			f.services[i].end(syscall.SIGKILL)
			f.services[i] = f.spawn(t)
			f.killed++
			nextService = between(300*time.Millisecond, 4*time.Second)
		case now.After(nextServer):
			f.server.Kill()
			f.server.Start()
			f.serversLost++
			nextServer = between(700*time.Millisecond, 4*time.Second)
		case now.After(nextRestock):
			select {
			case <-restocking.ended:
				if code := restocking.wait(); code != 0 {
					t.Errorf("restock ended with %d", code)
				}
				restocking = f.spawn(t, "-restock", "jug=3")
			default:
			}
			nextRestock = between(500*time.Millisecond, 3*time.Second)
		}
		if f.killed > 0 && f.serversLost > 0 && !told {
			told = true
			close(both)
		}
		time.Sleep(20 * time.Millisecond)
	}
	restocking.wait()
	all.Wait()
	f.server.WaitInfo(t, "EVENTS", "inventory", time.Minute, "everything settled", func(i *jetstream.ConsumerInfo) bool {
		return i.NumAckPending == 0 && i.NumPending == 0 && i.AckFloor.Stream == i.Delivered.Stream
	})
	for _, s := range f.services {
		if code := s.end(syscall.SIGTERM); code != 0 {
			t.Errorf("a service ended with %d", code)
		}
	}
	t.Logf("%d orders: %d services and %d servers killed in %v", *killOrders, f.killed, f.serversLost, time.Since(began).Round(time.Millisecond))
}

func (f *flow) decided(t *testing.T) int {
	t.Helper()
	return number(t, f.store, "SELECT COUNT(*) FROM inventory_orders")
}

func (f *flow) check(t *testing.T, stream jetstream.Stream) {
	t.Helper()
	balanced(t, f.store)
	if left := outboxOf(t, f.store); len(left) != 0 {
		t.Errorf("the outbox has %d events", len(left))
	}
	events := subjects(t, stream)
	onceEach(t, events, *killOrders)
	counts := map[string]int{}
	for i := range *killOrders {
		id := fmt.Sprintf("o%d", i)
		var state string
		if err := f.store.db.QueryRowContext(t.Context(), "SELECT state FROM inventory_orders WHERE order_id = $1", id).Scan(&state); err != nil {
			t.Errorf("order %s: %v", id, err)
			continue
		}
		counts[state]++
		if events["events.stock_"+state+"."+id] != 1 {
			t.Errorf("order %s is %s, and there is no such event", id, state)
		}
	}
	if counts[reserved] == 0 || counts[rejected] == 0 {
		t.Errorf("%v: the test needs both", counts)
	}
	letters, err := f.server.JetStream(t).Stream(t.Context(), "EVENTS_DLQ")
	must(t, err)
	if n := int(letters.CachedInfo().State.Msgs); n < counts[rejected] {
		t.Errorf("%d dead letters of %d rejected orders", n, counts[rejected])
	}
	t.Logf("%d orders reserved, %d rejected", counts[reserved], counts[rejected])
}

// service is the service, or its restock command, as a process.
type service struct {
	cmd   *exec.Cmd
	out   bytes.Buffer
	ended chan struct{}
}

func (f *flow) spawn(t *testing.T, args ...string) *service {
	t.Helper()
	s := &service{cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "WORKER_") && !strings.HasPrefix(name, "NATS_") && !strings.HasPrefix(name, "DATABASE_") {
			s.cmd.Env = append(s.cmd.Env, v)
		}
	}
	s.cmd.Env = append(s.cmd.Env, "ACKFLOOR_INVENTORY_CHILD=1", "NATS_URL="+f.server.URL(), "DATABASE_URL="+f.url, "WORKER_ACK_WAIT=500ms",
		"WORKER_MAX_ATTEMPTS=1000", "WORKER_RETRY=20ms..200ms", "WORKER_PULL_EXPIRY=200ms", "WORKER_LOG_LEVEL=error")
	s.cmd.Dir = filepath.Dir(f.dir) // its files are in .ackfloor
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	s.cmd.SysProcAttr = endWithParent(&syscall.SysProcAttr{})
	must(t, s.cmd.Start())
	go func() { _ = s.cmd.Wait(); close(s.ended) }()
	t.Cleanup(func() {
		s.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("the end of the output of %v:\n%s", s.cmd.Args[1:], s.out.Bytes()[max(0, s.out.Len()-2000):])
		}
	})
	return s
}

// end ends the process with a signal and returns its exit code.
func (s *service) end(sig syscall.Signal) int {
	_ = s.cmd.Process.Signal(sig)
	return s.wait()
}

func (s *service) wait() int {
	<-s.ended
	return s.cmd.ProcessState.ExitCode()
}
