package testutil

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ackfloor/ackfloor"
)

// Succeed is a handler that returns nil.
func Succeed() ackfloor.Handler {
	return ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { return nil })
}

// Fail is a handler that returns err the first times that it gets a message, and nil from then on. Each message (stream and
// sequence) counts by itself. With times < 0 it never stops failing. err may be what the worker treats specially:
// ackfloor.Permanent, ackfloor.RetryAfter.
func Fail(times int, err error) ackfloor.Handler {
	type message struct {
		stream   string
		sequence uint64
	}
	var mu sync.Mutex
	failed := map[message]int{}
	return ackfloor.HandlerFunc(func(_ context.Context, m *ackfloor.Message) error {
		mu.Lock()
		defer mu.Unlock()
		key := message{m.Stream, m.Sequence}
		if times >= 0 && failed[key] >= times {
			return nil
		}
		failed[key]++
		return err
	})
}

// Sleep is a handler that takes d and returns nil, or the context's cause at once when its context ends before.
func Sleep(d time.Duration) ackfloor.Handler {
	return ackfloor.HandlerFunc(func(ctx context.Context, _ *ackfloor.Message) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// Block is a handler that waits: until release is closed or gives a value, then it returns nil; or until its context ends,
// then it returns the context's cause. A value releases one call, closing releases all.
func Block(release <-chan struct{}) ackfloor.Handler {
	return ackfloor.HandlerFunc(func(ctx context.Context, _ *ackfloor.Message) error {
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// Stubborn is a handler that takes d and returns nil, whatever becomes of its context.
func Stubborn(d time.Duration) ackfloor.Handler {
	return ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
		<-time.After(d)
		return nil
	})
}

// Panic is a handler that panics with v.
func Panic(v any) ackfloor.Handler {
	return ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error { panic(v) })
}

// Goexit is a handler that ends its goroutine with runtime.Goexit, as t.FailNow does when a handler calls it.
func Goexit() ackfloor.Handler {
	return ackfloor.HandlerFunc(func(context.Context, *ackfloor.Message) error {
		runtime.Goexit()
		return nil
	})
}

// ByData is a handler that leaves each message to the handler of its payload, and those of a payload that is not in the map
// to otherwise. With a nil otherwise these fail for good, with an error that names the payload.
func ByData(handlers map[string]ackfloor.Handler, otherwise ackfloor.Handler) ackfloor.Handler {
	return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		if h, ok := handlers[string(m.Data)]; ok {
			return h.Handle(ctx, m)
		}
		if otherwise != nil {
			return otherwise.Handle(ctx, m)
		}
		var known []string
		for data := range handlers {
			known = append(known, fmt.Sprintf("%q", data))
		}
		slices.Sort(known)
		return ackfloor.Permanent(fmt.Errorf("testutil.ByData: no handler for %q; there are handlers for %s",
			m.Data, strings.Join(known, ", ")))
	})
}
