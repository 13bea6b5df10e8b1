package worker

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
)

// Ctrl-C on `service 2>&1 | tee log` ends who reads the log at once. The worker drains all the same, also when it has something to log meanwhile.
func TestReaderOfTheLogDies(t *testing.T) {
	s := testutil.Server(t)
	r := newRig(t, s, 40)
	out := filepath.Join(t.TempDir(), "out")
	k := &kid{t: t, cmd: exec.Command(os.Args[0]), out: out, stderr: &strings.Builder{}, ended: make(chan struct{})}
	k.cmd.Env = append(os.Environ(), "ACKFLOOR_TEST_CHILD=main", "OUT="+out, "NATS_URL="+s.URL(), "WORKER_STREAM="+rigStream, "WORKER_CONSUMER="+rigConsumer,
		"WORKER_ACK_WAIT=2s", "WORKER_CONCURRENCY=4", "WORK=1500ms", "WORKER_HANDLE_TIMEOUT=5s")
	reads, writes, err := os.Pipe()
	must(t, err)
	k.cmd.Stderr = writes
	must(t, k.cmd.Start())
	must(t, writes.Close())
	go func() { _ = k.cmd.Wait(); close(k.ended) }()
	t.Cleanup(func() { _ = k.cmd.Process.Kill(); <-k.ended })
	go func() { _, _ = bufio.NewReader(reads).ReadString('\n') }()
	k.waitFor("start", 4, 10*time.Second)
	k.signal(syscall.SIGINT)
	must(t, reads.Close())
	time.Sleep(200 * time.Millisecond)
	s.Restart() // it is logged
	if code, took := k.exit(10 * time.Second); code != 0 {
		t.Fatalf("code %d after %v", code, took)
	}
	spawn(t, "main", s.URL(), out, "WORK=5ms")
	r.floor(40, 20*time.Second)
	for seq, n := range events(t, out, "start") {
		if n > 1 {
			t.Errorf("%v was handled %d times", seq, n)
		}
	}
}
