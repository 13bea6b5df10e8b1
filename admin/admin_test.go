package admin_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/admin"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestStatusSaysWhatTheWorkerDoes(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	block := testutil.Block(release)
	x := start(t, 8, ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		switch m.Sequence {
		case 2:
			return ackfloor.Permanent(errors.New("no such article"))
		case 4:
			return block.Handle(ctx, m)
		}
		return nil
	}), admin.Options{}, func(c *worker.Config) { c.Concurrency, c.Prefetch = 2, 3 })
	s := x.server
	s.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "email"})
	var d document
	wait(t, "everything but what is held to be acknowledged", func() bool {
		d = x.status()
		return len(d.Runners) == 1 && d.Runners[0].Counts["acked"] == 6.0 && len(d.Tapes) == 1 && d.Tapes[0].Tape != nil &&
			len(d.Tapes[0].Tape.Cursors) == 2 && d.Tapes[0].Tape.Cursors[1].AckFloor == 3
	})
	r, p, tape := d.Runners[0], d.Process, d.Tapes[0].Tape
	if !d.Live || !d.Ready || r.State != "working" || !r.Ready || r.Reason != "" || !r.Alive || !r.Connected || r.Stream != "EVENTS" || r.Consumer != "inventory" {
		t.Errorf("state: %+v", r)
	}
	if host, _ := os.Hostname(); p.Host != host || p.PID != os.Getpid() || p.Started.IsZero() || p.Go == "" {
		t.Errorf("process: %+v", p)
	}
	if len(r.Held.Oldest) != 1 || r.Held.Oldest[0].Sequence != 4 || r.Held.Oldest[0].State != "running" || r.Held.Running != 1 || r.Held.Limit != 5 {
		t.Errorf("held: %+v", r.Held)
	}
	if len(r.Failures) != 1 || r.Failures[0].Error != "permanent: no such article" && r.Failures[0].Error != "no such article" || r.Failures[0].Then != "dead-lettered" || r.Failures[0].Sequence != 2 {
		t.Errorf("failures: %+v", r.Failures)
	}
	if tape.First != 1 || tape.Last != 8 || tape.Messages != 8 || tape.Cursors[0].Consumer != "email" || tape.Cursors[0].Unprocessed != 8 ||
		tape.Cursors[1].Delivered != 8 || tape.Cursors[1].Outstanding != 1 {
		t.Errorf("tape: %+v", tape)
	}
	if n := len(r.History.AckedPerSecond); n != 150 || len(r.History.Unprocessed) != n || r.History.StepSeconds != 2 {
		t.Errorf("history: %+v", r.History)
	}
	if len(r.Settings) < 30 || r.Settings[0].Name != "WORKER_STREAM" || r.Settings[0].Value != "EVENTS" {
		t.Errorf("settings: %+v", r.Settings)
	}
}

// The page says the same without scripts.
func TestPageShowsTheNumbers(t *testing.T) {
	x := start(t, 8, testutil.Succeed(), admin.Options{})
	var page string
	wait(t, "the page to show that all is acknowledged", func() bool {
		_, page, _ = get(t, x.url+"/")
		return strings.Contains(page, "Stream EVENTS, messages 1 to 8. inventory: acknowledgment floor 8, last delivered 8, 0 outstanding, 0 unprocessed.")
	})
	for _, want := range []string{"Last Delivered Message", "Acknowledgment Floor", "Outstanding Acks", "Redelivered Messages", "Unprocessed Messages", "Waiting Pulls",
		"this process", "Working", "WORKER_CONSUMER", "<noscript>", "No attempt has failed", "Nothing is held", "all processed"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, "can't be shown") || strings.Contains(page, "style=") || strings.Contains(page, "http://") || strings.Contains(page, "https://") {
		t.Error("the page has a part that failed, an inline style, or an address of elsewhere")
	}
	for _, asset := range []string{"assets/page.css", "assets/page.js", "assets/icon.svg"} {
		if code, body, h := get(t, x.url+"/"+asset); code != 200 || len(body) < 100 || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d, %d bytes", asset, code, len(body))
		}
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	x := start(t, 1, testutil.Fail(-1, errors.New("dial nats://svc:s3cr3t-one@db:4222 failed")), admin.Options{}, func(c *worker.Config) {
		c.Connection.Password, c.Connection.Token, c.Connection.URL = "s3cr3t-two", "s3cr3t-three", "nats://user:s3cr3t-four@127.0.0.1:4222"
	})
	wait(t, "the failure", func() bool { return len(x.status().Runners[0].Failures) > 0 })
	for _, path := range []string{"/", "/status", "/livez?verbose", "/readyz?verbose"} {
		if _, body, _ := get(t, x.url+path); strings.Contains(body, "s3cr3t") {
			t.Errorf("%s shows a secret", path)
		}
	}
}

func TestProbes(t *testing.T) {
	release := make(chan struct{})
	x := start(t, 1, testutil.Block(release), admin.Options{})
	probe := func(path string, wantCode int, want string) {
		t.Helper()
		var code int
		var body string
		wait(t, path+" to answer "+want, func() bool {
			code, body, _ = get(t, x.url+path)
			return code == wantCode && body == want
		})
	}
	probe("/livez", 200, "ok\n")
	probe("/readyz", 200, "ok\n")
	probe("/readyz?verbose", 200, "[+] inventory on EVENTS: working\n")
	probe("/livez?verbose", 200, "[+] inventory on EVENTS: its loops run\n")

	x.server.Stop()
	probe("/readyz", 503, "inventory on EVENTS: not connected\n")
	probe("/readyz?verbose", 503, "[-] inventory on EVENTS: not connected\n")
	probe("/livez", 200, "ok\n")
	began := time.Now()
	if code, body, _ := get(t, x.url+"/"); code != 200 || !strings.Contains(body, "not connected to the server") || time.Since(began) > time.Second {
		t.Errorf("without the server the page answers %d after %v", code, time.Since(began))
	}
	x.server.Start()
	probe("/readyz", 200, "ok\n")

	ended := make(chan error, 1)
	go func() { ended <- x.stop() }()
	probe("/readyz", 503, "inventory on EVENTS: draining\n")
	probe("/livez", 200, "ok\n")
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestSeveralRunners(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 3)
	nc := s.Conn(t)
	runner := func(name string) *worker.Runner {
		r, err := worker.New(nc, worker.Config{Stream: "EVENTS", Consumer: name, Logger: zap.NewNop()}, testutil.Succeed())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := runner("a"), runner("b")
	site := admin.Handler(admin.Options{Runners: []*worker.Runner{b, a}}, a)
	ctx, cancel := context.WithCancel(t.Context())
	running := make(chan error, 2)
	go func() { running <- a.Run(ctx) }()
	go func() { running <- site.Run(ctx) }()
	web := httptest.NewServer(http.StripPrefix("/worker", site))
	defer web.Close()
	wait(t, "a to work", func() bool { return a.Status().Ready })
	if code, body, _ := get(t, web.URL+"/worker/readyz"); code != 503 || body != "b on EVENTS: new\n" {
		t.Errorf("one of two is ready: %d %q", code, body)
	}
	if _, body, _ := get(t, web.URL+"/worker/"); !strings.Contains(body, "<h1>a, b <") || strings.Count(body, `class="card tape"`) != 1 {
		t.Error("the page does not show both on one tape")
	}
	cancel()
	for range 2 {
		if err := <-running; err != nil {
			t.Error(err)
		}
	}
}

func TestOff(t *testing.T) {
	s := testutil.Server(t)
	for _, addr := range []string{"", "off"} {
		r := newRunner(t, s, "inventory", testutil.Succeed(), func(c *worker.Config) { c.HTTPAddr = addr })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := admin.HTTP(ctx, r); err != nil || ctx.Err() == nil {
			t.Errorf("%q: %v, ended before its context: %v", addr, err, ctx.Err() == nil)
		}
		cancel()
	}
}

func TestAddressInUse(t *testing.T) {
	s := testutil.Server(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	r := newRunner(t, s, "inventory", testutil.Succeed(), func(c *worker.Config) { c.HTTPAddr = taken.Addr().String() })
	if err := admin.HTTP(t.Context(), r); err == nil || !strings.HasPrefix(err.Error(), "admin: listen tcp 127.0.0.1:") {
		t.Errorf("ended with %v", err)
	}
}

// A port without a host is one of this machine alone.
func TestListensOnLoopback(t *testing.T) {
	s := testutil.Server(t)
	for addr, want := range map[string]string{":0": "http://127.0.0.1:", "0.0.0.0:0": "http://0.0.0.0:|http://[::]:", "[::1]:0": "http://[::1]:"} {
		r := newRunner(t, s, "inventory", testutil.Succeed(), func(c *worker.Config) { c.HTTPAddr = addr })
		core, logs := observer.New(zap.InfoLevel)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- admin.With(admin.Options{Logger: zap.New(core)})(ctx, r) }()
		select {
		case err := <-ended:
			if !strings.HasPrefix(addr, "[") { // a machine without IPv6
				t.Errorf("%s: %v", addr, err)
			}
		case <-time.After(100 * time.Millisecond):
			url, ok := address(t, logs), false
			for w := range strings.SplitSeq(want, "|") {
				ok = ok || strings.HasPrefix(url, w)
			}
			if !ok {
				t.Errorf("%s listens on %s, want %s", addr, url, want)
			}
			cancel()
			<-ended
		}
		cancel()
	}
}

func TestOwnHandlers(t *testing.T) {
	say := func(what string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(what + r.URL.Path)) })
	}
	x := start(t, 1, testutil.Succeed(), admin.Options{Handlers: map[string]http.Handler{"/metrics": say("m "), "/debug/": say("d "), "/status": say("never ")}})
	for path, want := range map[string]string{"/metrics": "m /metrics", "/debug/pprof/heap": "d /debug/pprof/heap", "/debug/": "d /debug/", "/debug": "", "/metrics/": "",
		"/debug/../metrics": "", "/debug//x": "", "/other": ""} {
		code, body, _ := get(t, x.url+path)
		if want == "" && code != 404 || want != "" && body != want {
			t.Errorf("%s: %d %q, want %q", path, code, body, want)
		}
	}
	if _, body, _ := get(t, x.url+"/status"); strings.HasPrefix(body, "never") {
		t.Error("a handler of the program takes the place of the page's own")
	}
}

// What is started ends with the part, those who listen too.
func TestNothingIsLeft(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t, goleak.IgnoreCurrent()) })
	x := start(t, 3, testutil.Succeed(), admin.Options{})
	events := listen(t, x.url)
	events.next("parts")
	began := time.Now()
	if err := x.stop(); err != nil || time.Since(began) > 5*time.Second {
		t.Errorf("ended with %v after %v", err, time.Since(began))
	}
	events.next("end")
	events.close()
}

// blocking is a logger's core on which the line of a handle timeout blocks, and so does the loop that writes it.
type blocking struct {
	zapcore.Core
	release chan struct{}
}

func (b blocking) Enabled(zapcore.Level) bool        { return true }
func (b blocking) With([]zapcore.Field) zapcore.Core { return b }
func (b blocking) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return to.AddCore(e, b)
}
func (b blocking) Write(e zapcore.Entry, _ []zapcore.Field) error {
	if strings.Contains(e.Message, "handle timeout has passed") {
		<-b.release
	}
	return nil
}

// A worker one of whose loops hangs is not alive, and the answer says which; when it goes on it is.
func TestLoopThatHangs(t *testing.T) {
	hang, done := make(chan struct{}), make(chan struct{})
	x := start(t, 1, ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
		<-done // it does not look at its context
		return nil
	}), admin.Options{}, func(c *worker.Config) {
		c.HandleTimeout = 500 * time.Millisecond
		c.Logger = zap.New(blocking{zapcore.NewNopCore(), hang})
	})
	until := func(code int, text string) {
		t.Helper()
		wait(t, text, func() bool {
			got, body, _ := get(t, x.url+"/livez")
			return got == code && strings.Contains(body, text)
		})
	}
	until(503, "the leases loop does not go round")
	close(hang)
	until(200, "ok")
	close(done)
	_ = x.stop()
}
