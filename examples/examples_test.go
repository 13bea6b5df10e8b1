//go:build unix

package examples_test

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// What each service handles of the seeds, and where that leaves its floor.
var services = map[string]struct {
	seeds []int
	floor int
}{
	"inventory": {[]int{3, 5, 7}, 7},
	"email":     {[]int{5, 7, 8}, 8}, // starts at 5
	"analytics": {[]int{1, 2, 4, 6}, 6},
}

func settled(floor int) string {
	return fmt.Sprintf(`(?m)cursor: delivered %d, ack floor %d, pending 0$`, floor, floor)
}

func TestOneServiceFromNothing(t *testing.T) {
	t.Parallel()
	for name, s := range services {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)

			first := p.start(t, name)
			first.sees(t, "started one here")
			first.sees(t, "put 8 sample events")
			first.sees(t, settled(s.floor))
			p.floors(t, map[string]uint64{name: uint64(s.floor)})
			first.stop(t, s.floor+1)
			first.handles(t, s.seeds...)
			if first.count("other programs use the server") != 0 {
				t.Error("its own connection outlived the worker")
			}

			second := p.start(t, name)
			second.sees(t, settled(s.floor))
			time.Sleep(300 * time.Millisecond) // for what must not come
			second.signal(t, syscall.SIGTERM)
			second.exits(t, 0)
			second.sees(t, fmt.Sprintf(`0 handled; resume at %d\n`, s.floor+1))
			second.handles(t)
			if second.count("sample events") != 0 {
				t.Error("it put the sample events in once more")
			}
		})
	}
}

func TestAnEventFromOutsideIsHandledAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	inventory := p.start(t, "inventory")
	inventory.sees(t, settled(7))
	var last uint64 // inventory's own events, which tell of the orders, are in the stream between them
	for _, c := range []struct{ data, want string }{
		{`{"order_id":"2001","sku":"mug","quantity":1}`, "order 2001: reserved 1 x mug"},
		{`{"order_id":"2002","sku":"teapot","quantity":100}`, `refused: order "2002": 100 x "teapot": out of stock`},
		{`{"id":7}`, "refused: .*names no article"},
		{`no JSON`, "refused: .*can't be decoded"},
	} {
		last = p.publish(t, "events.order_placed", c.data)
		stored := time.Now()
		inventory.sees(t, fmt.Sprintf(`(?m)^  #%d +events.order_placed .*%s`, last, c.want))
		if took := time.Since(stored); took > time.Second {
			t.Errorf("%s was handled %v after it was stored", c.data, took)
		}
	}
	inventory.sees(t, settled(int(last)))
	inventory.stop(t, int(last)+1)
	inventory.sees(t, "4 handled, 3 refused")
}

func TestThreeAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		folders int
	}{{"in one folder", 1}, {"in folders of their own", 3}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addr := freeAddr(t)
			dirs := make([]string, c.folders)
			for i := range dirs {
				dirs[i] = t.TempDir()
			}
			var all []*example
			at := make(map[*example]place)
			for name := range services {
				p := place{dir: dirs[len(all)%c.folders], addr: addr}
				e := p.start(t, name)
				all, at[e] = append(all, e), p
			}
			started, seeded := 0, 0
			floors := make(map[string]uint64)
			var home *example // it has the server
			for _, e := range all {
				e.sees(t, settled(services[e.name].floor))
				floors[e.name] = uint64(services[e.name].floor)
				if e.count("started one here") == 1 {
					started, home = started+1, e
				}
				seeded += e.count("put 8 sample events")
				for n := range 7 {
					if e.count(fmt.Sprintf("put %d sample events", n+1)) == 1 { // two took turns
						seeded = 1
					}
				}
			}
			if started != 1 || seeded != 1 {
				t.Fatalf("%d started a server and %d put the sample events in, want 1 and 1", started, seeded)
			}
			p := at[home]
			p.floors(t, floors)
			js, leave := p.jetStream(t)
			stream, err := js.Stream(t.Context(), "EVENTS")
			if err != nil {
				t.Fatal(err)
			}
			info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter("events.>"))
			if err != nil {
				t.Fatal(err)
			}
			leave()
			n := uint64(0)
			for subject, of := range info.State.Subjects {
				if !strings.HasPrefix(subject, "events.stock_") { // of inventory's own
					n += of
				}
			}
			if n != 8 {
				t.Errorf("the stream holds %d sample events, want 8", n)
			}
			for _, e := range all { // Ctrl-C reaches all of them in the same moment
				e.signal(t, syscall.SIGINT)
			}
			for _, e := range all {
				e.exits(t, 0)
				e.sees(t, fmt.Sprintf(`resume at %d\n`, services[e.name].floor+1))
				e.handles(t, services[e.name].seeds...)
			}
			for name := range services { // the folder that has the files
				again := p.start(t, name)
				again.sees(t, settled(services[name].floor))
				again.stop(t, services[name].floor+1)
				again.handles(t)
			}
		})
	}
}

func TestTheOthersGoOnWhenTheServerComesBack(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			inventory := p.start(t, "inventory")
			inventory.sees(t, settled(7))
			email, analytics := p.start(t, "email"), p.start(t, "analytics")
			email.sees(t, settled(8))
			analytics.sees(t, settled(6))
			if sig == syscall.SIGKILL {
				time.Sleep(300 * time.Millisecond) // the server writes acknowledgments to disk within 100 ms
			}

			inventory.signal(t, sig)
			email.sees(t, "the server is gone")
			analytics.sees(t, "the server is gone")
			<-inventory.done
			again := p.start(t, "inventory")
			again.sees(t, "started one here")
			email.sees(t, "the server is back")
			analytics.sees(t, "the server is back")
			again.sees(t, settled(7))

			order := int(p.publish(t, "events.order_placed", `{"order_id":"2001","sku":"mug","email":"ada@example.com"}`))
			page := int(p.publish(t, "events.page_loaded", `{"page":"/home"}`))
			again.sees(t, settled(order))
			email.sees(t, settled(order))
			analytics.sees(t, settled(page))
			p.floors(t, map[string]uint64{"inventory": uint64(order), "email": uint64(order), "analytics": uint64(page)})
			again.handles(t, order)
			email.handles(t, 5, 7, 8, order)
			analytics.handles(t, 1, 2, 4, 6, page)

			// The server goes for good: those that are left can still be stopped.
			again.stop(t, order+1)
			email.sees(t, "(?s)the server is back.*the server is gone")
			email.stop2(t, order+1)
			analytics.signal(t, syscall.SIGTERM)
			analytics.exits(t, 0)
		})
	}
}

// stop2 is stop where the server has gone, which the last line says too.
func (e *example) stop2(t *testing.T, resumeAt int) {
	t.Helper()
	e.signal(t, syscall.SIGINT)
	e.exits(t, 0)
	e.sees(t, fmt.Sprintf(`the server is gone, .*resume at %d\n`, resumeAt))
}

func TestTheServerThatNATS_URLNames(t *testing.T) {
	t.Parallel()
	s := testutil.ServerProcess(t)
	p := newPlace(t)
	inventory := p.start(t, "inventory", "NATS_URL="+s.URL())
	inventory.sees(t, "the server that NATS_URL names")
	inventory.sees(t, settled(7))
	if got := s.Info(t, "EVENTS", "inventory").AckFloor.Stream; got != 7 {
		t.Errorf("the consumer's floor there is %d, want 7", got)
	}
	if exists(t, filepath.Join(p.dir, ".ackfloor", "nats")) || exists(t, filepath.Join(p.dir, ".ackfloor", "nats.lock")) {
		t.Error("it made files for a server, though it needs none")
	}
	if _, err := net.Dial("tcp", p.addr); err == nil {
		t.Error("it started a server of its own, too")
	}
	inventory.stop(t, 8)
}

func TestJoinsAServerThatIsThere(t *testing.T) {
	t.Parallel()
	s := testutil.ServerProcess(t)
	p := place{dir: t.TempDir(), addr: strings.TrimPrefix(s.URL(), "nats://")}
	email := p.start(t, "email")
	email.sees(t, "joins the NATS server on "+p.addr)
	email.sees(t, settled(8))
	email.stop(t, 9)
	if exists(t, filepath.Join(p.dir, ".ackfloor", "nats")) || exists(t, filepath.Join(p.dir, ".ackfloor", "nats.lock")) {
		t.Error("it made files for a server, though it needs none")
	}
}

func TestThePortOfAnotherProgram(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // it takes connections, and says nothing
	e := p.start(t, "inventory")
	e.exits(t, shutdown.ExitUnavailable)
	e.sees(t, p.addr+" is taken by another program.*NATS_URL.*ACKFLOOR_EXAMPLE_ADDR")
	if e.count("resume at") != 0 {
		t.Error("it says where to resume, but it never began")
	}
}

func TestAStreamWithOtherSubjects(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	s.Stream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"orders.>"}})
	e := newPlace(t).start(t, "analytics", "NATS_URL="+s.URL())
	e.exits(t, shutdown.ExitConfig)
	e.sees(t, `EVENTS is there with the subjects \["orders.>"\]`)
}

func TestBadSettings(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"ACKFLOOR_EXAMPLE_ADDR=4222": `ACKFLOOR_EXAMPLE_ADDR is "4222"`,
		"WORKER_START=yesterday":     `WORKER_START is "yesterday"`,
		"-x":                         "flag provided but not defined",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			e := p.start(t, "inventory", setting)
			e.exits(t, shutdown.ExitConfig)
			e.sees(t, want)
			if exists(t, filepath.Join(p.dir, ".ackfloor")) {
				t.Error("it began to start a server")
			}
		})
	}
}

func TestVariablesOverrideTheDefaults(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	e := p.start(t, "email", "WORKER_CONSUMER=mail2", "WORKER_FILTER=events.order_placed", "WORKER_START=last",
		"WORKER_EXIT_WHEN_IDLE=true", "WORKER_LOG_LEVEL=info", "WORKER_LOG_FORMAT=json")
	e.exits(t, 0)
	e.handles(t, 7)
	e.sees(t, `"msg":"working on a new consumer","stream":"EVENTS","consumer":"mail2"`)
	e.sees(t, "resume at 8\n")
}

func TestAUsersOwnStreamIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	s.Stream(t, jetstream.StreamConfig{Name: "SHOP", Subjects: []string{"shop.>"}})
	e := newPlace(t).start(t, "analytics", "NATS_URL="+s.URL(), "WORKER_STREAM=SHOP", "WORKER_FILTER=shop.page_loaded",
		"WORKER_EXIT_WHEN_IDLE=true")
	e.exits(t, 0)
	if names := drain(s.JetStream(t).StreamNames(t.Context()).Name()); slices.Contains(names, "EVENTS") {
		t.Errorf("it made a stream of its own: %v", names)
	}
}

func drain(c <-chan string) (all []string) {
	for s := range c {
		all = append(all, s)
	}
	return all
}

func TestHelpStartsNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	e := p.start(t, "inventory", "-h")
	e.exits(t, 0)
	e.sees(t, `WORKER_FILTER +"events.order_placed"`)
	if exists(t, filepath.Join(p.dir, ".ackfloor")) {
		t.Error("it started a server")
	}
}

func TestStopsWhileItWaitsForTheServer(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	e := p.start(t, "inventory", "NATS_URL=nats://"+p.addr)
	e.sees(t, "waiting for the server")
	e.signal(t, syscall.SIGINT)
	e.exits(t, 0)
}
