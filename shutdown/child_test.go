//go:build unix

package shutdown_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
	"go.uber.org/goleak"
)

// The tests of signals run this test binary again as a process of its own, which plays one of these programs. Each prints
// what happens in it, line by line, beginning with "ready".
var programs = map[string]func(){
	"drain": func() {
		shutdown.Main(drains("worker", 100*time.Millisecond), drains("admin", 0))
	},
	"stuck": func() {
		shutdown.Main(shutdown.Part{Name: "worker", Run: func(ctx context.Context) error {
			say("ready")
			<-ctx.Done()
			say("stopping")
			time.Sleep(time.Minute)
			return nil
		}})
	},
	"service": service,
	// A program that imports the package and runs parts, but gave its signals to nobody.
	"unnotified": func() {
		_ = shutdown.Run(context.Background(), drains("worker", 0))
	},
	"given back": func() {
		ctx, stop := shutdown.Notify(context.Background(), nil)
		stop()
		stop()
		<-ctx.Done()
		say("ready")
		time.Sleep(time.Minute)
	},
	// The parent context ends first, as when a part has failed: the next signal is then the first.
	"parent ended": func() {
		parent, cancel := context.WithCancel(context.Background())
		ctx, _ := shutdown.Notify(parent, func(code int) {
			say("exit", code)
			os.Exit(code)
		})
		cancel()
		<-ctx.Done()
		say("ready", context.Cause(ctx))
		time.Sleep(200 * time.Millisecond)
		say("still here")
		time.Sleep(time.Minute)
	},
	"fails": func() {
		shutdown.Main(
			shutdown.Part{Name: "worker", Run: func(ctx context.Context) error { return coded(shutdown.ExitConfig) }},
			drains("admin", 0))
	},
	"panics": func() {
		shutdown.Main(
			shutdown.Part{Name: "worker", Run: func(ctx context.Context) error { panic("wires crossed") }},
			drains("admin", 0))
	},
	"finishes": func() {
		shutdown.Main(
			shutdown.Part{Name: "worker", Run: func(ctx context.Context) error { return nil }},
			drains("admin", 0))
	},
}

func TestMain(m *testing.M) {
	if name := os.Getenv("SHUTDOWN_TEST_PROGRAM"); name != "" {
		programs[name]()
		os.Exit(99) // no program gets here
	}
	goleak.VerifyTestMain(m)
}

// service is a process with everything: two Runners and an http.Server in one process. The server answers until the Runners have
// drained.
func service() {
	address := make(chan string, 1)
	srv := &http.Server{
		Addr:        "127.0.0.1:0",
		Handler:     http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "alive") }),
		BaseContext: func(l net.Listener) context.Context { address <- l.Addr().String(); return context.Background() },
	}
	drained := make(chan struct{})
	runner := func(name string, mine, other chan struct{}) shutdown.Part {
		return shutdown.Part{Name: name, Run: func(ctx context.Context) error {
			<-ctx.Done()
			close(mine)
			select { // both drain at the same time, or neither would get further
			case <-other:
			case <-time.After(5 * time.Second):
				return errors.New("alone")
			}
			return nil
		}}
	}
	a, b := make(chan struct{}), make(chan struct{})
	probe := shutdown.Part{Name: "probe", Run: func(ctx context.Context) error {
		url := "http://" + <-address
		say("ready", get(url))
		<-ctx.Done()
		<-a
		<-b
		say("draining", get(url))
		close(drained)
		return nil
	}}
	server := shutdown.HTTP("admin", srv, time.Second)
	serve := server.Run
	server.Run = func(ctx context.Context) error {
		err := serve(ctx)
		<-drained // blocks for ever if the server stopped before the Runners
		say("server stopped", err)
		return err
	}
	shutdown.Main(shutdown.Together("runners", runner("a", a, b), runner("b", b, a), probe), server)
}

func get(url string) string {
	resp, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return string(body)
}

// drains is a part that takes its time after it was stopped, and tells.
func drains(name string, d time.Duration) shutdown.Part {
	return shutdown.Part{Name: name, Run: func(ctx context.Context) error {
		if name == "worker" {
			say("ready")
		}
		<-ctx.Done()
		say(name, "stopping:", context.Cause(ctx))
		time.Sleep(d)
		say(name, "stopped")
		return nil
	}}
}

func say(words ...any) { fmt.Println(words...) }
