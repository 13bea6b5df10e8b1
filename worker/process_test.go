package worker

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// With a real process: SIGTERM while four handlers run.
func TestSIGTERMFinishesWhatRuns(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	s.Events(t, 100)
	k := spawn(t, "main", s.URL(), "", "WORK=500ms")
	k.waitFor("start", 4, 10*time.Second)
	k.signal(syscall.SIGTERM)
	code, took := k.exit(5 * time.Second)
	if code != 0 || took > 2500*time.Millisecond {
		t.Errorf("exit code %d after %v", code, took)
	}
	started, ended := events(t, k.out, "start"), events(t, k.out, "end")
	if len(started) != len(ended) || len(ended) > 8 {
		t.Errorf("%d started, %d ended", len(started), len(ended))
	}
	s.WaitInfo(t, rigStream, rigConsumer, time.Second, "floor at what was held, nothing pending", func(i *jetstream.ConsumerInfo) bool {
		return i.AckFloor.Stream == uint64(len(ended)) && i.NumAckPending == 0
	})
	if !strings.Contains(k.stderr.String(), "drained") {
		t.Error("no line says that it has drained")
	}
}

// With a real process: a handler that ignores its context.
func TestStubbornHandlerExits75(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	s.Events(t, 1)
	k := spawn(t, "main", s.URL(), "", "WORK=30s", "STUBBORN=1", "WORKER_DRAIN_TIMEOUT=300ms")
	k.waitFor("start", 1, 10*time.Second)
	k.signal(syscall.SIGTERM)
	code, took := k.exit(5 * time.Second)
	if code != 75 || took > 500*time.Millisecond+slack {
		t.Errorf("exit code %d after %v", code, took)
	}
	if log := k.stderr.String(); !strings.Contains(log, "events.0") || !strings.Contains(log, `"sequence":1`) {
		t.Errorf("no line names the message: %s", log)
	}
	s.WaitInfo(t, rigStream, rigConsumer, time.Second, "the message handed back", func(i *jetstream.ConsumerInfo) bool { return i.NumAckPending == 1 })
}

// slack is what a loaded machine may add to a time limit of a real process.
const slack = 300 * time.Millisecond

// A second signal ends the process at once.
func TestSecondSignalExitsAtOnce(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	s.Events(t, 10)
	k := spawn(t, "main", s.URL(), "", "WORK=20s")
	k.waitFor("start", 4, 10*time.Second)
	k.signal(syscall.SIGTERM)
	time.Sleep(50 * time.Millisecond)
	k.signal(syscall.SIGTERM)
	if code, took := k.exit(5 * time.Second); code != 143 || took > slack {
		t.Errorf("exit code %d after %v", code, took)
	}
}

// After SIGKILL the next process handles everything; twice at most what was held, and soon.
func TestSIGKILLRepeatsAtMostWhatWasHeld(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	s.Events(t, 200)
	k := spawn(t, "main", s.URL(), "", "WORK=20ms", "WORKER_CONCURRENCY=8")
	k.waitFor("end", 60, 10*time.Second)
	k.signal(syscall.SIGKILL)
	if code, _ := k.exit(time.Second); code != -9 {
		t.Fatalf("exit code %d", code)
	}
	held := s.Info(t, rigStream, rigConsumer).NumAckPending
	began := time.Now()
	next := spawn(t, "main", s.URL(), k.out, "WORK=1ms", "WORKER_CONCURRENCY=8")
	next.waitFor("end", 200, 10*time.Second)
	s.WaitInfo(t, rigStream, rigConsumer, time.Second, "floor 200", func(i *jetstream.ConsumerInfo) bool { return i.AckFloor.Stream == 200 })
	if d := time.Since(began); d > 2*time.Second+time.Second+slack {
		t.Errorf("what was held came after %v", d)
	}
	again := 0
	for _, n := range events(t, k.out, "start") {
		again += n - 1
	}
	if again > held || held > 8+prefetchMax {
		t.Errorf("%d handled again, %d were held", again, held)
	}
	next.signal(syscall.SIGTERM)
	if code, _ := next.exit(5 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A Runner by itself leaves the signals alone; with package shutdown everything in a process ends in order.
func TestSignalsBelongToTheProgram(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	s.Events(t, 10)
	bare := spawn(t, "bare", s.URL(), "", "WORK=5s")
	bare.waitFor("start", 4, 10*time.Second)
	bare.signal(syscall.SIGTERM)
	if code, took := bare.exit(5 * time.Second); code != -int(syscall.SIGTERM) || took > slack {
		t.Errorf("a program that does nothing about signals: exit %d after %v", code, took)
	}

	service := spawn(t, "service", s.URL(), "", "WORKER_CONSUMER=S", "WORK=300ms")
	service.waitFor("start", 4, 10*time.Second)
	service.signal(syscall.SIGTERM)
	if code, took := service.exit(5 * time.Second); code != 0 || took > 3*time.Second {
		t.Errorf("exit code %d after %v", code, took)
	}
	if order := overs(t, service.out); len(order) != 2 || order[0] != "runners" || order[1] != "web" {
		t.Errorf("they ended in the order %v", order)
	}
	if started, ended := events(t, service.out, "start"), events(t, service.out, "end"); len(started) != len(ended) {
		t.Errorf("%d started, %d ended", len(started), len(ended))
	}
}

// The exit codes of a service that can't start.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	for name, tc := range map[string]struct {
		env  []string
		code int
		says string
	}{
		"bad configuration": {[]string{"WORKER_ACK_WAIT=soon", "WORKER_CONCURRENCY=0"}, 78, "WORKER_CONCURRENCY"},
		"no stream":         {[]string{"WORKER_STREAM=NONE", "WORKER_STARTUP_TIMEOUT=300ms"}, 69, `stream \"NONE\"`},
		"no server":         {[]string{"NATS_URL=nats://127.0.0.1:1", "WORKER_STARTUP_TIMEOUT=300ms"}, 69, "127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			k := spawn(t, "main", s.URL(), "", tc.env...)
			if code, _ := k.exit(5 * time.Second); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if log := k.stderr.String(); !strings.Contains(log, tc.says) && !strings.Contains(log, strings.ReplaceAll(tc.says, `\`, "")) {
				t.Errorf("it does not name %s: %s", tc.says, log)
			}
		})
	}
}

// With a real server process that is killed and comes back.
func TestGoesOnAfterServerIsKilled(t *testing.T) {
	t.Parallel()
	p := testutil.ServerProcess(t)
	p.Events(t, 100)
	k := spawn(t, "main", p.URL(), "", "WORK=10ms")
	k.waitFor("end", 30, 10*time.Second)
	p.Kill()
	time.Sleep(time.Second)
	p.Start()
	began := time.Now()
	k.waitFor("end", 100, 5*time.Second)
	p.WaitInfo(t, rigStream, rigConsumer, 3*time.Second, "floor 100", func(i *jetstream.ConsumerInfo) bool { return i.AckFloor.Stream == 100 })
	t.Logf("all handled %v after the return", time.Since(began))
	for seq, n := range events(t, k.out, "end") {
		if n != 1 {
			t.Errorf("sequence %d was handled %d times", seq, n)
		}
	}
}

// A part of Main runs beside the Runner and is told to stop when that has drained; one that fails ends the process with 1.
func TestPartsOfMain(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	s.Events(t, 10)
	k := spawn(t, "parts", s.URL(), "", "WORK=300ms")
	k.waitFor("start", 4, 10*time.Second)
	k.waitFor("part", 1, time.Second)
	k.signal(syscall.SIGTERM)
	if code, _ := k.exit(5 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if order := overs(t, k.out); len(order) != 1 || order[0] != "ended" {
		t.Errorf("the part was told to stop when the Runner was in the state %v", order)
	}
	if started, ended := events(t, k.out, "start"), events(t, k.out, "end"); len(started) != len(ended) {
		t.Errorf("%d started, %d ended", len(started), len(ended))
	}
	broken := spawn(t, "parts", s.URL(), "", "BROKEN=1")
	if code, _ := broken.exit(5 * time.Second); code != 1 || !strings.Contains(broken.stderr.String(), "the part is broken") {
		t.Errorf("with a broken part: exit code %d", code)
	}
}

// A process whose consumer is deleted ends with 1 and says why.
func TestDeletedConsumerExits1(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	s.Events(t, 1)
	k := spawn(t, "main", s.URL(), "")
	k.waitFor("end", 1, 10*time.Second)
	must(t, s.JetStream(t).DeleteConsumer(t.Context(), rigStream, rigConsumer))
	if code, took := k.exit(5 * time.Second); code != 1 || took > 2*time.Second || !strings.Contains(k.stderr.String(), "the consumer was deleted") {
		t.Errorf("exit code %d after %v", code, took)
	}
}

// A server in lame duck mode, then gone, then back: nothing is handled again.
func TestLameDuck(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t, func(o *server.Options) { o.LameDuckDuration, o.LameDuckGracePeriod = time.Second, 100*time.Millisecond })
	s.Events(t, 100)
	k := spawn(t, "main", s.URL(), "", "WORK=20ms")
	k.waitFor("end", 20, 10*time.Second)
	s.Server().LameDuckShutdown()
	s.Stop()
	s.Start()
	k.waitFor("end", 100, 10*time.Second)
	s.WaitInfo(t, rigStream, rigConsumer, 3*time.Second, "floor 100", func(i *jetstream.ConsumerInfo) bool { return i.AckFloor.Stream == 100 })
	for seq, n := range events(t, k.out, "end") {
		if n != 1 {
			t.Errorf("sequence %d was handled %d times", seq, n)
		}
	}
	k.signal(syscall.SIGTERM)
	if code, _ := k.exit(5 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(k.stderr.String(), "lame duck") {
		t.Error("no line says so")
	}
}
