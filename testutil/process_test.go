package testutil

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestServerProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds nats-server")
	}
	p := ServerProcess(t)
	p.Events(t, 5)
	c := p.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: "d"})
	nc, pid := p.Conn(t), p.Pid()
	if nc.ConnectedServerVersion() != server.VERSION {
		t.Errorf("the process is version %s, linked in is %s", nc.ConnectedServerVersion(), server.VERSION)
	}
	if body := nextBody(t, c); body != "0" {
		t.Fatalf("the first body is %q", body)
	}
	for _, end := range []struct {
		name string
		call func()
	}{{"Stop", p.Stop}, {"Kill", p.Kill}} {
		end.call()
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d is alive after %s", pid, end.name)
		}
		if p.Pid() != 0 {
			t.Errorf("Pid is %d after %s", p.Pid(), end.name)
		}
		p.Start()
		if p.Pid() == pid {
			t.Errorf("the same process after %s and Start", end.name)
		}
		pid = p.Pid()
		if !poll(5*time.Second, nc.IsConnected) {
			t.Fatalf("the connection did not come back after %s and Start", end.name)
		}
	}
	if info := p.Info(t, "EVENTS", "d"); info.NumPending+uint64(info.NumAckPending) > 5 || info.Delivered.Stream > 1 {
		t.Errorf("after two starts: %s", describe(info))
	}
	p.Kill()
	if out := p.output(); !strings.Contains(out, "Server is ready") {
		t.Errorf("the output is not kept: %q", out)
	}
}

func TestServerProcessSignal(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds nats-server")
	}
	p := ServerProcess(t)
	nc := p.Conn(t)
	p.Signal(syscall.SIGSTOP)
	stopped := false
	for range 20 { // a signal takes a moment to reach every thread
		if stopped = nc.FlushTimeout(200*time.Millisecond) != nil; stopped {
			break
		}
	}
	if !stopped {
		t.Error("a server that is stopped by SIGSTOP answers")
	}
	p.Signal(syscall.SIGCONT)
	if err := nc.FlushTimeout(5 * time.Second); err != nil {
		t.Errorf("after SIGCONT: %v", err)
	}
}

func TestServerProcessFailsWithWords(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds nats-server")
	}
	said := failure(t, func(t testing.TB) { ServerProcess(t, "-c", "no-such-file") })
	if !strings.Contains(said, "ended at once") || !strings.Contains(said, "no-such-file") {
		t.Errorf("it said %q", said)
	}
}

func TestServerProcessWithAPassword(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds nats-server")
	}
	p := ServerProcess(t, "--user", "ann", "--pass", "secret")
	p.Login(nats.UserInfo("ann", "secret"))
	p.Events(t, 1)
}

func TestNatsCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the nats command")
	}
	command := NatsCommand(t)
	s := Server(t)
	s.Events(t, 3)
	cmd := exec.Command(command, "--server", s.URL(), "stream", "info", "EVENTS", "--json")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"messages": 3`) {
		t.Errorf("%v: %v\n%s", cmd.Args, err, out)
	}
}

func TestToolFailsWithWords(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PATH", "")
	said := failure(t, func(t testing.TB) { NatsCommand(t) })
	if !strings.Contains(said, "building nats "+natsCommandVersion) || !strings.Contains(said, `"go"`) {
		t.Errorf("it said %q", said)
	}
}
