package shop

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats-server/v2/server"
)

func TestProbeFindsAServer(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t)
	addr := strings.TrimPrefix(s.URL(), "nats://")
	if found, err := probe(t.Context(), addr); !found || err != nil {
		t.Fatalf("probe(a NATS server) = %v, %v", found, err)
	}
	s.Stop()
	if found, err := probe(t.Context(), addr); found || err != nil {
		t.Fatalf("probe(nobody) = %v, %v", found, err)
	}
}

func TestProbeRefuses(t *testing.T) {
	t.Parallel()
	const info = `INFO {"server_id":"X"`
	for _, c := range []struct {
		name, says, want string
	}{
		{"another program", "SSH-2.0-OpenSSH_9.2\r\n", "is taken by another program"},
		{"a silent one", "wait", "is taken by another program"},
		{"one that hangs up", "", "is taken by another program"},
		{"a server without JetStream", info + "}\r\n", "without JetStream"},
		{"a server that was cut off", info, "can't be understood"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addr := greeter(t, c.says)
			found, err := probe(t.Context(), addr)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), addr) {
				t.Fatalf("probe = %v, %v; want an error with %q and the address", found, err, c.want)
			}
			if code := shutdown.ExitCode(err); code != shutdown.ExitUnavailable {
				t.Errorf("exit code %d, want %d", code, shutdown.ExitUnavailable)
			}
		})
	}
}

func TestProbeOfARealServerWithoutJetStream(t *testing.T) {
	t.Parallel()
	s := testutil.Server(t, func(o *server.Options) { o.JetStream = false })
	_, err := probe(t.Context(), strings.TrimPrefix(s.URL(), "nats://"))
	if err == nil || !strings.Contains(err.Error(), "-js") {
		t.Fatalf("probe = %v; want an error that says how to start the server", err)
	}
}

func TestProbeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("told to stop")
	cancel(cause)
	if _, err := probe(ctx, greeter(t, "")); !errors.Is(err, cause) {
		t.Fatalf("probe = %v, want the cause", err)
	}
}

// greeter listens and says one thing to who comes; "wait" is to say nothing and to stay.
func greeter(t *testing.T, says string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if says == "wait" {
				t.Cleanup(func() { _ = conn.Close() })
				continue
			}
			_, _ = conn.Write([]byte(says))
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}
