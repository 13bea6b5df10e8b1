package once

import (
	"errors"
	"fmt"
	"strings"
)

// What a handler behind KV returns beside its own errors.
var (
	// ErrNotNoted says that the effect was made, and that the bucket could not be told. The message comes again; this process then knows better, and skips it once
	// the bucket can be told; another one takes it for a possible duplicate.
	ErrNotNoted = errors.New("once: the effect was made, but could not be noted")

	// ErrBusy says that another process is at this message, or was when it died: its time is not over. It comes inside a RetryAfter for when it will be.
	ErrBusy = errors.New("once: another process has begun with this message")

	// ErrInDoubt says that an earlier call was broken off, so that its effect may have been made, and that KVConfig.InDoubt is Refuse. It comes inside Permanent.
	ErrInDoubt = errors.New("once: an earlier call was broken off and may have had its effect")
)

// ConfigError lists everything that is wrong with a SQLConfig or a KVConfig.
type ConfigError struct{ Problems []string }

func (e *ConfigError) Error() string {
	if len(e.Problems) == 1 {
		return "once: configuration: " + e.Problems[0]
	}
	return fmt.Sprintf("once: configuration: %d problems:\n  - %s", len(e.Problems), strings.Join(e.Problems, "\n  - "))
}

// ExitCode is 78, EX_CONFIG: starting again won't help.
func (e *ConfigError) ExitCode() int { return 78 }

// BucketError says that KV can't work with its bucket.
type BucketError struct {
	Bucket string
	Allow  string // the subject that the user has to be allowed to publish to; "" where it is not a matter of rights
	Err    error
}

func (e *BucketError) Error() string {
	if e.Allow != "" {
		return fmt.Sprintf("once: bucket %q: the user may not publish to %q: allow it: %v", e.Bucket, e.Allow, e.Err)
	}
	return fmt.Sprintf("once: bucket %q: %v", e.Bucket, e.Err)
}

// Unwrap returns the client's error.
func (e *BucketError) Unwrap() error { return e.Err }
