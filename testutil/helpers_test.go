package testutil

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// fake is a testing.TB that keeps what it is failed with; everything else goes to the real one.
type fake struct {
	testing.TB
	mu   sync.Mutex
	said []string
}

func (f *fake) Helper() {}

func (f *fake) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

func (f *fake) Fatalf(format string, args ...any) { f.Errorf(format, args...); runtime.Goexit() }
func (f *fake) Fatal(args ...any)                 { f.Errorf("%s", fmt.Sprint(args...)); runtime.Goexit() }

// failure runs what has to fail and returns the words that it failed with.
func failure(t *testing.T, run func(t testing.TB)) string {
	t.Helper()
	f := &fake{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(f)
	}()
	<-done
	if len(f.said) == 0 {
		t.Fatal("it did not fail")
	}
	return strings.Join(f.said, "\n")
}

// nextBody fetches one message, acknowledges it, and returns its body.
func nextBody(t *testing.T, c jetstream.Consumer) string {
	t.Helper()
	msg, err := c.Next(jetstream.FetchMaxWait(2 * time.Second))
	if err != nil {
		t.Fatalf("fetching: %v", err)
	}
	if err := msg.DoubleAck(t.Context()); err != nil {
		t.Fatalf("acknowledging: %v", err)
	}
	return string(msg.Data())
}
