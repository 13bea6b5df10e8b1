package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	benchReady   = 10 * time.Second
	benchConfirm = 2 * time.Minute // for the server to confirm all that was published
	benchPending = 4000            // published, not yet confirmed
)

// benchmark puts n events into a stream of a server in this process, runs the service on them as a process of its own until nothing is left, and tells how
// fast it was, what it needed, and whether each event is in the files once.
func benchmark(ctx context.Context, n int, profile string, to io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "ackfloor-analytics-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: filepath.Join(dir, "nats"), NoSigs: true})
	if err != nil {
		return err
	}
	srv.Start()
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	if !srv.ReadyForConnections(benchReady) {
		return fmt.Errorf("analytics: the server is not ready after %v", benchReady)
	}
	began := time.Now()
	size, err := benchFill(ctx, srv.ClientURL(), n)
	if err != nil {
		return err
	}
	fmt.Fprintf(to, "published %d events of %d bytes on average in %v\n", n, size/n, time.Since(began).Round(time.Millisecond))

	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, to, to
	cmd.Env = append(os.Environ(), "NATS_URL="+srv.ClientURL(), "WORKER_EXIT_WHEN_IDLE=true", dirVariable+"=files")
	if profile != "" {
		if profile, err = filepath.Abs(profile); err != nil {
			return err
		}
		cmd.Env = append(cmd.Env, profileVariable+"="+profile)
	}
	began = time.Now()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("analytics: the service: %w", err)
	}
	took := time.Since(began)
	fmt.Fprintf(to, "the service: %d events in %v, %.0f a second, from its start to its end with the summary made\n", n, took.Round(time.Millisecond), float64(n)/took.Seconds())
	fmt.Fprintf(to, "             %v of CPU time; %s\n", (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Round(time.Millisecond), peak(cmd.ProcessState))
	return benchCheck(ctx, n, filepath.Join(dir, "files"), to)
}

// benchFill publishes events of a shop: 4 views of pages on 1 input, a few pages more often than the rest.
func benchFill(ctx context.Context, url string, n int) (size int, err error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(benchPending))
	if err != nil {
		return 0, err
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}, Storage: jetstream.FileStorage}); err != nil {
		return 0, err
	}
	for i := range n {
		if i%1000 == 0 && ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		m := nats.NewMsg("events.page_loaded")
		m.Data = fmt.Appendf(nil, `{"page":"/articles/%d","visitor":"v%d"}`, i%(1+i%500), i%20_000)
		if i%5 == 4 {
			m.Subject = "events.input_changed"
			m.Data = fmt.Appendf(nil, `{"field":"field-%d","visitor":"v%d"}`, i%37, i%20_000)
		}
		size += len(m.Data)
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(benchReady)); err != nil {
			return 0, err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
		return size, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(benchConfirm):
		return 0, fmt.Errorf("analytics: %d of %d events are not confirmed after %v", js.PublishAsyncPending(), n, benchConfirm)
	}
}

// benchCheck reads the files again: each event once.
func benchCheck(ctx context.Context, n int, dir string, to io.Writer) error {
	s := &store{dir: dir}
	began := time.Now()
	hours, before, err := (&counter{store: s}).count(ctx, 0)
	if err != nil {
		return err
	}
	took := time.Since(began)
	sum := summarise(hours, before)
	fmt.Fprintf(to, "the files:   %d rows in %s of %s, %d bytes, %.1f bytes an event; counted in %v\n",
		sum.Events, plural(sum.Files, "file"), plural(sum.Hours, "hour"), sum.Bytes, float64(sum.Bytes)/float64(n), took.Round(time.Millisecond))
	if sum.Events != int64(n) || sum.Copies > 0 {
		return fmt.Errorf("analytics: %d rows and %d copies of %d events", sum.Events, sum.Copies, n)
	}
	began = time.Now()
	if err := s.compact(ctx, time.Now().Add(2*time.Hour)); err != nil { // as when the hour is over
		return err
	}
	after, err := s.files()
	if err != nil {
		return err
	}
	var sizes []string
	for _, f := range after {
		sizes = append(sizes, fmt.Sprint(f.size))
	}
	fmt.Fprintf(to, "             when the hour is over: %s, %s bytes; merged in %v\n", plural(len(after), "file"), strings.Join(sizes, " + "), time.Since(began).Round(time.Millisecond))
	return nil
}
