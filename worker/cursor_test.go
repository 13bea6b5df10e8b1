package worker

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// With real processes: what was acknowledged does not come again, however the worker and the server end.
func TestAcknowledgedStaysAcknowledgedAcrossProcesses(t *testing.T) {
	t.Parallel()
	p := testutil.ServerProcess(t)
	p.Events(t, 100)
	k := spawn(t, "main", p.URL(), "", "WORK=1ms")
	k.waitFor("end", 100, 10*time.Second)
	all := func(i *jetstream.ConsumerInfo) bool { return i.AckFloor.Stream == 100 && i.NumAckPending == 0 }
	created := p.WaitInfo(t, rigStream, rigConsumer, 2*time.Second, "floor 100", all).Created
	for _, end := range []struct {
		worker syscall.Signal
		server bool
	}{{syscall.SIGKILL, false}, {syscall.SIGTERM, false}, {syscall.SIGKILL, true}, {syscall.SIGTERM, true}} {
		k.signal(end.worker)
		k.exit(5 * time.Second)
		if end.server {
			p.Restart()
		}
		k = spawn(t, "main", p.URL(), k.out, "WORK=1ms")
		time.Sleep(700 * time.Millisecond) // time to handle something again
		if n := len(events(t, k.out, "start")); n != 100 {
			t.Fatalf("%d different messages", n)
		}
		for seq, n := range events(t, k.out, "start") {
			if n != 1 {
				t.Errorf("after %+v: sequence %d was handled %d times", end, seq, n)
			}
		}
	}
	if now := p.Info(t, rigStream, rigConsumer); !now.Created.Equal(created) || !all(now) {
		t.Errorf("the consumer is not the same: %+v", now)
	}
}

// Two processes share one durable, each message once.
func TestTwoProcessesShareADurable(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	s.Events(t, 200)
	dir := t.TempDir()
	a := spawn(t, "main", s.URL(), filepath.Join(dir, "a"), "WORK=20ms")
	b := spawn(t, "main", s.URL(), filepath.Join(dir, "b"), "WORK=20ms")
	s.WaitInfo(t, rigStream, rigConsumer, 15*time.Second, "floor 200", func(i *jetstream.ConsumerInfo) bool { return i.AckFloor.Stream == 200 })
	of, by := events(t, a.out, "end"), events(t, b.out, "end")
	if len(of)+len(by) != 200 || len(of) < 40 || len(by) < 40 {
		t.Errorf("one handled %d, the other %d of 200", len(of), len(by))
	}
	for seq := range of {
		if of[seq] != 1 || by[seq] != 0 {
			t.Errorf("sequence %d: %d and %d times", seq, of[seq], by[seq])
		}
	}
}
