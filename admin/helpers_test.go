package admin_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/admin"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// rig is a server with the stream EVENTS, a Runner on it, and its page.
type rig struct {
	t      *testing.T
	server *testutil.S
	runner *worker.Runner
	url    string
	logs   *observer.ObservedLogs
	stop   func() error // ends the Runner, then the page
}

func newRunner(t *testing.T, s *testutil.S, name string, h ackfloor.Handler, change ...func(*worker.Config)) *worker.Runner {
	t.Helper()
	cfg := worker.Config{Stream: "EVENTS", Consumer: name, Logger: zap.NewNop(), PullExpiry: 200 * time.Millisecond, HTTPAddr: "127.0.0.1:0"}
	for _, c := range change {
		c(&cfg)
	}
	r, err := worker.New(s.Conn(t), cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// start runs a worker as Main would: the page stops after it.
func start(t *testing.T, n int, h ackfloor.Handler, o admin.Options, change ...func(*worker.Config)) *rig {
	t.Helper()
	s := testutil.Server(t)
	s.Events(t, n)
	x := &rig{t: t, server: s, runner: newRunner(t, s, "inventory", h, change...)}
	core, logs := observer.New(zap.InfoLevel)
	x.logs, o.Logger = logs, zap.New(core)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	running, later := make(chan error, 1), make(chan error, 1)
	after, end := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { running <- x.runner.Run(ctx) }()
	go func() { later <- admin.With(o)(after, x.runner) }()
	stopped := false
	x.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		if err := <-running; err != nil {
			t.Errorf("the Runner ended with %v", err)
		}
		end()
		return <-later
	}
	t.Cleanup(func() { _ = x.stop() })
	x.url = address(t, logs)
	return x
}

// address is where the page says that it is.
func address(t *testing.T, logs *observer.ObservedLogs) string {
	t.Helper()
	var url string
	wait(t, "the page to say where it is", func() bool {
		for _, e := range logs.FilterMessage("the status page is served").All() {
			url = strings.TrimSuffix(e.ContextMap()["url"].(string), "/")
		}
		return url != ""
	})
	return url
}

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(15 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("waited for %s", what)
		}
	}
}

// get fetches a path with a client of its own.
func get(t *testing.T, url string, change ...func(*http.Request)) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(req)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return resp.StatusCode, string(body), resp.Header
}

// document is /status as a reader of the documentation would take it.
type document struct {
	Live, Ready bool
	Process     struct {
		Host, Program, Version, Go string
		PID                        int
		Started                    time.Time
	}
	Runners []struct {
		Stream, Consumer, State, Reason, Paused string
		Ready, Alive, Connected, Standby        bool
		Held                                    struct {
			Waiting, Running, Kept, Limit, More int
			Oldest                              []struct {
				Sequence uint64
				Subject  string
				Attempt  int
				State    string
				Seconds  float64
			}
		}
		Counts  map[string]any
		History struct {
			StepSeconds    float64    `json:"step_seconds"`
			AckedPerSecond []*float64 `json:"acked_per_second"`
			Unprocessed    []*float64
		}
		Failures []struct {
			At                           time.Time
			Subject, Error, Reason, Then string
			Sequence                     uint64
			Attempt                      int
		}
		Settings []struct {
			Name, Value, Usage string
			Default            bool
		}
	}
	Tapes []struct {
		Stream, Problem string
		Tape            *struct {
			First, Last, Messages uint64
			Cursors               []struct {
				Consumer    string
				Delivered   uint64
				AckFloor    uint64 `json:"ack_floor"`
				Outstanding int
				Unprocessed uint64
			}
			Seen time.Time
		}
	}
}

func (x *rig) status() document {
	x.t.Helper()
	code, body, _ := get(x.t, x.url+"/status")
	var d document
	if err := json.Unmarshal([]byte(body), &d); err != nil || code != http.StatusOK {
		x.t.Fatalf("/status: %d, %v: %s", code, err, body)
	}
	return d
}
