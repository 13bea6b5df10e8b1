package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// On a disk that is full, the worker says so and waits; when there is room again, it goes on. Nothing is lost, nothing refused, no attempt is charged.
func TestADiskThatIsFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("SKIPPED: no small disk can be mounted here (it takes root): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	srv := testutil.Server(t)
	srv.Stream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}})
	nc, err := nats.Connect(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	publish := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			data := fmt.Appendf(nil, `{"page":"/p%d","visitor":"v%d"}`, i, i)
			if _, err := srv.JetStream(t).Publish(t.Context(), "events.page_loaded", data); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := openStore(filepath.Join(dir, "files"))
	if err != nil {
		t.Fatal(err)
	}
	r := startWorker(t, nc, &writer{store: s, pause: 200 * time.Millisecond, show: nothing})
	wait := func(what string, is func(worker.Status) bool) {
		t.Helper()
		for end := time.Now().Add(15 * time.Second); !is(r.Status()); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: not so: %+v", what, r.Status())
			}
		}
	}
	publish(0, 100)
	wait("100 are written", func(s worker.Status) bool { return s.Counts.Acked == 100 })

	filler := filepath.Join(dir, "filler")
	if err := fill(filler); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	publish(100, 300)
	wait("it pauses, with the reason", func(s worker.Status) bool {
		return strings.Contains(s.Paused, "the disk is full") && s.Counts.Pauses >= 3
	})
	if left, _ := filepath.Glob(filepath.Join(s.dir, temporaryPrefix+"*")); len(left) > 1 { // one may be under way
		t.Errorf("left behind: %v", left)
	}
	if _, err := openStore(s.dir); err != nil {
		t.Errorf("a service that starts on a full disk: %v; want that it waits", err)
	}
	if got := r.Status().Counts.Acked; got != 100 {
		t.Errorf("%d are acknowledged on a disk that is full, want the 100 from before", got)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	wait("it goes on", func(s worker.Status) bool { return s.Paused == "" && s.Counts.Acked == 300 })
	rows, copies := s.rows(t)
	if c := r.Status().Counts; len(rows) != 300 || copies != 0 || c.Retried+c.DeadLettered+c.Terminated+c.Returned != 0 {
		t.Errorf("%d rows, %d copies, %+v", len(rows), copies, c)
	}
}

// fill writes until there is no room at all.
func fill(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(f, zeros{})
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return min(len(p), 512), nil }

func startWorker(t *testing.T, nc *nats.Conn, w *writer) *worker.Runner {
	t.Helper()
	cfg, err := worker.FromEnv("ANALYTICS_TEST")
	if err != nil && cfg.PullExpiry == 0 {
		t.Fatal(err)
	}
	cfg.Stream, cfg.Consumer, cfg.Filter, cfg.Logger = "EVENTS", "analytics", []string{"events.page_loaded"}, zap.NewNop()
	cfg.BatchSize, cfg.BatchLinger, cfg.Concurrency, cfg.PullExpiry = 50, 50*time.Millisecond, 2, 200*time.Millisecond
	r, err := worker.NewBatch(nc, cfg, w)
	if err != nil {
		t.Fatal(err)
	}
	testRun(t, r)
	return r
}
