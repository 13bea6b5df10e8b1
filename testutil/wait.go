package testutil

import (
	"context"
	"testing"
	"time"
)

// within returns a context that ends after d and that also works in a t.Cleanup, where t.Context has ended already.
func within(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), d)
}

// poll calls ok every few milliseconds until it says true, and reports whether it did so within limit.
func poll(limit time.Duration, ok func() bool) bool {
	end := time.Now().Add(limit)
	for {
		if ok() {
			return true
		}
		if !time.Now().Before(end) {
			return false
		}
		<-time.After(5 * time.Millisecond)
	}
}
