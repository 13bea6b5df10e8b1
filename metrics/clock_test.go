package metrics

import (
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/worker"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// A wall clock that was set is followed from the next scrape on.
func TestClockIsFollowed(t *testing.T) {
	s := testutil.Server(t)
	x, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := worker.New(s.Conn(t), worker.Config{Stream: "EVENTS", Consumer: "a", Logger: zap.NewNop()}, testutil.Succeed())
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(x.Collector(r))
	x.wall.Add(int64(-time.Hour)) // as if the clock had been an hour behind
	if _, err := reg.Gather(); err != nil {
		t.Fatal(err)
	}
	if off := time.Since(time.Unix(0, x.wall.Load()+int64(time.Since(x.base)))); off.Abs() > time.Minute {
		t.Errorf("it is %v off after a scrape", off)
	}
}
