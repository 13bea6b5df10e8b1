package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
)

type ctxKey struct{}

// newAttempt makes a handler's context whose timeout passes in a second.
func newAttempt() *attempt {
	r := &Runner{clock: clock{time.Now()}, values: context.WithValue(context.Background(), ctxKey{}, "value")}
	return &attempt{r: r, limit: time.Second}
}

func TestAttemptIsAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttempt()
		if d, ok := a.Deadline(); !ok || time.Until(d) != time.Second {
			t.Errorf("its deadline is in %v", time.Until(d))
		}
		if a.Value(ctxKey{}) != "value" || a.real != nil {
			t.Errorf("value %v; a known value made a context", a.Value(ctxKey{}))
		}
		if a.Value("unknown") != nil || a.Err() != nil {
			t.Errorf("an unknown value, or an error: %v", a.Err())
		}
		child, cancel := context.WithTimeout(a, time.Hour)
		defer cancel()
		<-child.Done()
		if !errors.Is(a.Err(), context.DeadlineExceeded) || !errors.Is(child.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(child), ackfloor.ErrHandleTimeout) {
			t.Errorf("errors %v and %v, cause %v", a.Err(), child.Err(), context.Cause(child))
		}
		if cause := a.returned(a.r.clock.now()); !errors.Is(cause, ackfloor.ErrHandleTimeout) {
			t.Errorf("it returned with cause %v", cause)
		}
	})
}

func TestAttemptEndsWithItsCause(t *testing.T) {
	for _, used := range []bool{false, true} { // whether the handler had looked at it before
		a := newAttempt()
		if used {
			_ = a.Done()
		}
		a.end(ackfloor.ErrStopping)
		a.end(ackfloor.ErrLeaseLost) // the first one stays
		<-a.Done()
		if !errors.Is(a.Err(), context.Canceled) || !errors.Is(context.Cause(a), ackfloor.ErrStopping) {
			t.Errorf("used %v: error %v, cause %v", used, a.Err(), context.Cause(a))
		}
		if cause := a.returned(0); !errors.Is(cause, ackfloor.ErrStopping) {
			t.Errorf("used %v: it returned with cause %v", used, cause)
		}
	}
}

// After the handler has returned its context is over for whoever kept it, whether it was used before or not.
func TestAttemptAfterTheHandler(t *testing.T) {
	for _, used := range []bool{false, true} {
		a := newAttempt()
		if used {
			_ = a.Done()
		}
		if cause := a.returned(0); cause != nil {
			t.Errorf("cause %v", cause)
		}
		if !errors.Is(a.Err(), context.Canceled) {
			t.Errorf("used %v: error %v", used, a.Err())
		}
		a.end(ackfloor.ErrStopping) // too late
		<-a.Done()
		if errors.Is(context.Cause(a), ackfloor.ErrStopping) {
			t.Error("a cause came after the handler had returned")
		}
	}
}

// A timeout that nobody looked at is seen when the handler returns.
func TestAttemptTimesOutUnseen(t *testing.T) {
	a := newAttempt()
	if cause := a.returned(2 * time.Second); !errors.Is(cause, ackfloor.ErrHandleTimeout) {
		t.Errorf("cause %v", cause)
	}
}
