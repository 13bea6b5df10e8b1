package retry_test

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/ackfloor/ackfloor/retry"
)

// ThrottledError is what the client of some provider returns with a Retry-After header.
type ThrottledError struct{ RetryAfter time.Duration }

func (e *ThrottledError) Error() string { return "throttled for " + e.RetryAfter.String() }

func ExampleByError() {
	errBusy := errors.New("the row is locked")
	policy := retry.ByError(retry.Table(time.Second, 10*time.Second, time.Minute),
		retry.Is(errBusy, retry.Constant(100*time.Millisecond)),
		retry.As[*fs.PathError](retry.Never()),
		retry.AsFunc(func(e *ThrottledError) retry.Policy {
			return retry.Constant(e.RetryAfter) // the provider knows best
		}))

	for _, err := range []error{
		fmt.Errorf("order a7: %w", errBusy),
		fmt.Errorf("invoice: %w", &fs.PathError{Op: "open", Path: "logo.png", Err: fs.ErrNotExist}),
		fmt.Errorf("send: %w", &ThrottledError{RetryAfter: 42 * time.Second}),
		errors.New("connection refused"),
	} {
		delay, again := policy(2, err) // the second attempt has failed
		fmt.Println(delay, again, "after", err)
	}
	// Output:
	// 100ms true after order a7: the row is locked
	// 0s false after invoice: open logo.png: file does not exist
	// 42s true after send: throttled for 42s
	// 10s true after connection refused
}
