package testutil

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Ports below those that Linux gives to outgoing connections (32768 and up), so that a server that is stopped for a moment
// finds its port free when it starts again.
const firstPort, lastPort = 12000, 32000

var taken sync.Map // ports that freePort gave away in this process

// freePort returns a port on which nobody listens and which it did not return before.
func freePort(t testing.TB) int {
	t.Helper()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// FreePort returns a port of the loopback interface on which nobody listens, which it did not return before in this process, and which is outside of the range that
// Linux gives to outgoing connections: who listens there may stop for a while and find it free again. (A port that was asked for with 0 is often taken by then.)
func FreePort() (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if _, used := taken.LoadOrStore(port, true); used {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		_ = l.Close()
		return port, nil
	}
	return 0, fmt.Errorf("testutil: no free port from %d to %d", firstPort, lastPort)
}
