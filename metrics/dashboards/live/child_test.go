package live

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/metrics"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// childVariable says what a child process of the test is: "service", or "embedded".
const childVariable = "LIVE_CHILD"

func TestMain(m *testing.M) {
	if kind := os.Getenv(childVariable); kind != "" {
		child(kind)
		return
	}
	os.Exit(m.Run())
}

// handle does what the message says.
func handle(ctx context.Context, m *ackfloor.Message) error {
	verb, _, _ := bytesCut(m.Data)
	switch verb {
	case "fail":
		return errors.New("failed as it was told")
	case "permanent":
		return ackfloor.Permanent(errors.New("never, as it was told"))
	case "panic":
		panic("as it was told")
	case "pause":
		return ackfloor.Pause(time.Second, errors.New("out of order, as it was told"))
	case "hang":
		return testutil.Stubborn(time.Minute).Handle(ctx, m)
	}
	takes, err := time.ParseDuration(verb)
	if err != nil {
		return ackfloor.Permanent(err)
	}
	return testutil.Sleep(takes).Handle(ctx, m)
}

// bytesCut takes the verb, up to the first space: what follows makes a message large.
func bytesCut(data []byte) (verb string, rest []byte, found bool) {
	for i, b := range data {
		if b == ' ' {
			return string(data[:i]), data[i+1:], true
		}
	}
	return string(data), nil, false
}

// child is a service with metrics, configured by its environment. One that is embedded goes on when its Runner has ended, as a program that does more than that.
func child(kind string) {
	m, err := metrics.New(metrics.Options{})
	if err != nil {
		panic(err)
	}
	reg := prometheus.NewRegistry()
	h := ackfloor.Chain(ackfloor.HandlerFunc(handle), m.Wrap)
	serve := func(ctx context.Context, r *worker.Runner) error {
		mux := http.NewServeMux()
		mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
		web := &http.Server{Addr: r.Config().HTTPAddr, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
		return shutdown.HTTP("metrics", web, time.Second).Run(ctx)
	}
	if kind != "embedded" {
		worker.Main(h, m.Part(reg), serve)
	}
	ctx := context.Background()
	cfg, err := worker.FromEnv("")
	if err != nil {
		panic(err)
	}
	nc, err := worker.Connect(ctx, cfg.Connection)
	if err != nil {
		panic(err)
	}
	r, err := worker.New(nc, cfg, h)
	if err != nil {
		panic(err)
	}
	reg.MustRegister(m.Collector(r))
	go func() { fmt.Fprintln(os.Stderr, "the Runner has ended:", r.Run(ctx)) }()
	panic(serve(ctx, r))
}
