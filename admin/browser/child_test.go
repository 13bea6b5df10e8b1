package browser

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/admin"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
)

const evil = `<script>window.pwned=1</script><img src=x onerror="window.pwned=2">`

// child is the worker that the tests look at: what to do with a message is in its payload. It does not return.
func child() {
	worker.Main(ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		switch what := string(m.Data); {
		case what == "hold":
			<-ctx.Done()
			return context.Cause(ctx)
		case what == "evil":
			return ackfloor.Permanent(errors.New(evil))
		case strings.HasPrefix(what, "gone "):
			return ackfloor.Permanent(errors.New(strings.TrimPrefix(what, "gone ")))
		case strings.HasPrefix(what, "fail "):
			return errors.New(strings.TrimPrefix(what, "fail "))
		}
		return nil
	}), admin.HTTP)
}

// kid is a worker in a process of its own, whose page stays where it is over restarts.
type kid struct {
	t    *testing.T
	env  []string
	addr string
	cmd  *exec.Cmd
}

func newKid(t *testing.T, natsURL string, env ...string) *kid {
	t.Helper()
	port, err := testutil.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	k := &kid{t: t, addr: addr, env: append([]string{"ACKFLOOR_TEST_CHILD=1", "NATS_URL=" + natsURL, "WORKER_STREAM=EVENTS", "WORKER_CONSUMER=inventory",
		"WORKER_HTTP_ADDR=" + addr, "WORKER_DRAIN_TIMEOUT=1s", "WORKER_HANDLE_TIMEOUT=1m", "WORKER_RETRY=1h", "WORKER_LOG_LEVEL=error"}, env...)}
	k.start()
	t.Cleanup(k.stop)
	return k
}

func (k *kid) url() string { return "http://" + k.addr + "/" }

func (k *kid) pid() string { return strconv.Itoa(k.cmd.Process.Pid) }

func (k *kid) start() {
	k.cmd = exec.Command(os.Args[0])
	k.cmd.Env = append(os.Environ(), k.env...)
	k.cmd.Stderr = os.Stderr
	if err := k.cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", k.addr)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(limit) {
			k.t.Fatalf("the worker's page is not there: %v", err)
		}
	}
}

func (k *kid) stop() {
	if k.cmd == nil {
		return
	}
	_ = k.cmd.Process.Signal(syscall.SIGTERM)
	_ = k.cmd.Wait()
	k.cmd = nil
}
