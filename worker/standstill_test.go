package worker

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"go.uber.org/zap"
)

// When what was kept is written down there is room again, and somebody asks for more at once: a burst of failures does not stand still until the pull loop looks. With
// a real server process, since in virtual time nothing takes any. A machine that does other work stands still by itself at times, so one run of three has to be good.
func TestAsksForMoreWhenWrittenDown(t *testing.T) {
	var worst time.Duration
	for range 3 {
		if worst = longestStandstill(t); worst < 350*time.Millisecond {
			return
		}
	}
	t.Errorf("for %v no handler was called", worst)
}

// longestStandstill has a worker give up 5,000 messages, and returns the longest time between two calls.
func longestStandstill(t *testing.T) (longest time.Duration) {
	const n = 5000
	p := testutil.ServerProcess(t)
	p.Events(t, n)
	var mu sync.Mutex
	var last time.Time
	calls := 0
	all := make(chan struct{})
	r, err := New(p.Conn(t), Config{Stream: rigStream, Consumer: rigConsumer, Logger: zap.NewNop()}, ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if !last.IsZero() {
			longest = max(longest, now.Sub(last))
		}
		last = now
		if calls++; calls == n {
			close(all)
		}
		return ackfloor.Permanent(errWork)
	}))
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	<-all
	stop()
	must(t, <-ended)
	return longest
}
