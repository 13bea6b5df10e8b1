package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/testutil/fault"
	"github.com/nats-io/nats-server/v2/server"
)

// TestMain lets the test's binary be the contestants' processes, as the command's own is.
func TestMain(m *testing.M) {
	fault.RunChild(programs())
	if len(os.Args) > 1 && os.Args[1] == childWord {
		exit(childMain(os.Args[2:], os.Stdin, os.Stdout))
		return
	}
	os.Exit(m.Run())
}

func TestServerVersion(t *testing.T) {
	if serverVersion != server.VERSION {
		t.Errorf("bench runs nats-server %s, the tests link %s: change serverVersion", serverVersion, server.VERSION)
	}
}

// The benchmarks measure one contestant each, in this process, so that allocations are the client's: of the worker, and of the few
// requests that wait for its end. Compare them within one run only; the command compares them better.
func BenchmarkConsume(b *testing.B)      { benchmark(b, "consume") }
func BenchmarkConsumeSlots(b *testing.B) { benchmark(b, "consume-slots") }
func BenchmarkConfirm(b *testing.B)      { benchmark(b, "ackfloor-confirm") }
func BenchmarkKeyed(b *testing.B)        { benchmark(b, "ackfloor-keyed") }
func BenchmarkOff(b *testing.B)          { benchmark(b, "ackfloor-off") }
func BenchmarkSend(b *testing.B)         { benchmark(b, "ackfloor-send") }
func BenchmarkDoubleAck(b *testing.B)    { benchmark(b, "doubleack") }

func benchmark(b *testing.B, name string) {
	who, err := contestantNamed(name)
	if err != nil {
		b.Fatal(err)
	}
	p := testutil.ServerProcess(b)
	bed, err := newBed(p.URL(), fmt.Sprint(p.Pid()))
	if err != nil {
		b.Fatal(err)
	}
	defer bed.nc.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := bed.stream(ctx, "BENCH"); err != nil {
		b.Fatal(err)
	}
	if err := bed.fill(ctx, "BENCH", b.N, bodySize); err != nil {
		b.Fatal(err)
	}
	durable, err := bed.durable(ctx, "BENCH", name, 0)
	if err != nil {
		b.Fatal(err)
	}
	var handled atomic.Int64
	all := make(chan struct{})
	b.ReportAllocs()
	b.ResetTimer()
	stop, err := who.start(ctx, bed.at("BENCH", durable.CachedInfo().Name), func([]byte) {
		if handled.Add(1) == int64(b.N) {
			close(all)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	<-all
	if _, err := settled(ctx, durable); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if err := stop(); err != nil {
		b.Fatal(err)
	}
}
