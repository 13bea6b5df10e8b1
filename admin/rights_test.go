package admin_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/admin"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// Of a user with the rights to work and no others the own cursor is shown, and why there is no more; what is denied is not asked for every second.
func TestUserWithFewRights(t *testing.T) {
	s := testutil.Server(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin", Password: "a"}, {Username: "worker", Password: "w", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{"$JS.API.CONSUMER.INFO.EVENTS.inventory", "$JS.API.CONSUMER.MSG.NEXT.EVENTS.inventory", "$JS.ACK.>"}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_inventory.>"}}}}}
	})
	s.Login(nats.UserInfo("admin", "a"))
	s.Events(t, 5)
	s.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "inventory"})
	var denied atomic.Int32
	nc := s.Conn(t, nats.UserInfo("worker", "w"), nats.CustomInboxPrefix("_INBOX_inventory"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if strings.Contains(err.Error(), ".LIST.") || strings.Contains(err.Error(), "STREAM.INFO.EVENTS\"") {
			denied.Add(1)
		}
	}))
	r, err := worker.New(nc, worker.Config{Stream: "EVENTS", Consumer: "inventory", Bind: worker.BindExisting, DeadLetter: "off", Records: "off", HTTPAddr: "127.0.0.1:0", Logger: zap.NewNop()}, testutil.Succeed())
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- r.Run(ctx) }()
	go func() { ended <- admin.With(admin.Options{Logger: zap.New(core)})(ctx, r) }()
	defer func() { cancel(); <-ended; <-ended }()
	x := &rig{t: t, url: address(t, logs)}
	wait(t, "the own cursor", func() bool {
		d := x.status()
		return d.Tapes[0].Tape != nil && len(d.Tapes[0].Tape.Cursors) == 1 && d.Tapes[0].Tape.Cursors[0].AckFloor == 5
	})
	events := listen(t, x.url)
	for range 4 {
		events.next("parts")
	}
	if _, page, _ := get(t, x.url+"/"); !strings.Contains(page, "Not all is shown: ") {
		t.Error("the page does not say that there may be more")
	}
	if n := denied.Load(); n > 4 {
		t.Errorf("what is denied was asked for %d times", n)
	}
}

// A server that is there and does not answer keeps nobody waiting, and the page says so.
func TestServerThatHangs(t *testing.T) {
	p := testutil.ServerProcess(t)
	p.Events(t, 5)
	r, err := worker.New(p.Conn(t), worker.Config{Stream: "EVENTS", Consumer: "inventory", HTTPAddr: "127.0.0.1:0", Logger: zap.NewNop(), DrainTimeout: time.Second}, testutil.Succeed())
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- r.Run(ctx) }()
	go func() { ended <- admin.With(admin.Options{Logger: zap.New(core)})(ctx, r) }()
	defer func() { cancel(); <-ended; <-ended }()
	x := &rig{t: t, url: address(t, logs)}
	wait(t, "all to be acknowledged", func() bool { return x.status().Runners[0].Counts["acked"] == 5.0 })
	p.Signal(syscall.SIGSTOP)
	defer p.Signal(syscall.SIGCONT)
	wait(t, "the page to say that nothing is answered", func() bool {
		began := time.Now()
		d := x.status()
		if took := time.Since(began); took > time.Second {
			t.Fatalf("an answer took %v", took)
		}
		return strings.HasPrefix(d.Tapes[0].Problem, "the server has not answered for ") && d.Tapes[0].Tape != nil
	})
	if code, body, _ := get(t, x.url+"/livez"); code != 200 {
		t.Errorf("/livez: %d %s", code, body)
	}
	p.Signal(syscall.SIGCONT)
	wait(t, "the tape to be new again", func() bool { return x.status().Tapes[0].Problem == "" })
}

// However many Runners a process has, it is alive while their server hangs: each of them may be in a request to it.
func TestAliveWhileTheServerHangs(t *testing.T) {
	p := testutil.ServerProcess(t)
	p.Events(t, 5)
	const runners = 8
	core, logs := observer.New(zap.InfoLevel)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, runners+1)
	var all []*worker.Runner
	for i := range runners {
		r, err := worker.New(p.Conn(t), worker.Config{Stream: "EVENTS", Consumer: fmt.Sprintf("c%d", i), HTTPAddr: "127.0.0.1:0", Logger: zap.NewNop(), DrainTimeout: time.Second}, testutil.Succeed())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
		go func() { ended <- r.Run(ctx) }()
	}
	go func() { ended <- admin.With(admin.Options{Logger: zap.New(core), Runners: all[1:]})(ctx, all[0]) }()
	defer func() {
		cancel()
		for range runners + 1 {
			<-ended
		}
	}()
	x := &rig{t: t, url: address(t, logs)}
	wait(t, "all to be ready", func() bool { code, _, _ := get(t, x.url+"/readyz"); return code == 200 })
	p.Signal(syscall.SIGSTOP)
	defer p.Signal(syscall.SIGCONT)
	for end := time.Now().Add(8 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if code, body, _ := get(t, x.url+"/livez"); code != 200 {
			t.Fatalf("/livez: %d %s", code, body)
		}
	}
}
