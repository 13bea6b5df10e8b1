package worker

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/once"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// modes are the ways to work, each with a Runner that it makes of an ordinary handler. What holds of stops, restarts and leases holds in each.
var modes = map[string]func(h ackfloor.Handler) build{
	"plain": single,
	"keyed": func(h ackfloor.Handler) build {
		return func(nc *nats.Conn, c Config) (*Runner, error) {
			c.Key = func(m *ackfloor.Message) string { return strconv.FormatUint(m.Sequence%1000, 10) }
			return New(nc, c, h)
		}
	},
	"batch": func(h ackfloor.Handler) build {
		return func(nc *nats.Conn, c Config) (*Runner, error) {
			c.BatchSize, c.BatchLinger = 1, time.Millisecond
			return NewBatch(nc, c, ackfloor.BatchHandlerFunc(func(ctx context.Context, b *ackfloor.Batch) error {
				return h.Handle(ctx, b.Messages[0])
			}))
		}
	},
	"limited": func(h ackfloor.Handler) build {
		return func(nc *nats.Conn, c Config) (*Runner, error) {
			c.Gate = gateFunc(func(ctx context.Context, _ *ackfloor.Message) (func(error), error) {
				select {
				case <-time.After(50 * time.Microsecond):
					return func(error) {}, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			})
			return New(nc, c, h)
		}
	},
	"once": func(h ackfloor.Handler) build {
		return func(nc *nats.Conn, c Config) (*Runner, error) {
			if nc == nil {
				return New(nc, c, h)
			}
			js, err := jetstream.New(nc)
			if err != nil {
				return nil, err
			}
			kv, err := once.NewKV(js, once.KVConfig{})
			if err != nil {
				return nil, err
			}
			return New(nc, c, kv.Wrap(h))
		}
	},
}

// mode is the one that the rig makes Runners in, and that the program of a child process has.
var mode = os.Getenv("MODE")

func inMode(h ackfloor.Handler) build {
	if m := modes[mode]; m != nil {
		return m(h)
	}
	return single(h)
}

// The core's tests of stops, restarts and leases once more, in every way to work.
func TestEveryMode(t *testing.T) {
	tests := map[string]func(*testing.T){
		"StopWaitsForHandlers": TestStopWaitsForHandlers, "ContextLivesThroughGrace": TestContextLivesThroughGrace, "InterruptedIsNotFailed": TestInterruptedIsNotFailed,
		"StubbornHandlerIsLeftBehind": TestStubbornHandlerIsLeftBehind, "RetryDoesNotHoldUpTheStop": TestRetryDoesNotHoldUpTheStop,
		"WaitingGoesBackInOrder": TestWaitingGoesBackInOrder,
		"WaitingKeepsItsLease":   TestWaitingKeepsItsLease, "RestartDoesNotRedeliverWhatIsHeld": TestRestartDoesNotRedeliverWhatIsHeld,
		"StopWaitsForTheServer": TestStopWaitsForTheServer, "StopWithoutTheServer": TestStopWithoutTheServer, "StopWhileTheServerIsAway": TestStopWhileTheServerIsAway,
		"GoesOnAfterServerRestart": TestGoesOnAfterServerRestart, "PanicsStayWithTheirMessage": TestPanicsStayWithTheirMessage,
	}
	defer func() { mode = "" }()
	for name := range modes {
		if name == "plain" {
			continue // the tests by themselves
		}
		mode = name
		t.Run(name, func(t *testing.T) {
			for test, f := range tests {
				switch {
				case name == "once" && test == "StubbornHandlerIsLeftBehind": // what a handler that was left behind does is not done once more beside it: its mark holds
				case name == "once" && test == "StopWithoutTheServer": // its handlers wait to note what they did, until their leases are lost
				default:
					t.Run(test, f)
				}
			}
		})
	}
}
