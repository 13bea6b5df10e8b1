package tracing

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/ackfloor/ackfloor"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// The outcomes of a call.
const (
	ok          = "ok"
	failed      = "failed"
	permanent   = "permanent"
	retryAfter  = "retry_after"
	paused      = "paused"      // no failure
	timedOut    = "timed_out"   // an error, and the handle timeout had passed
	interrupted = "interrupted" // an error, and the drain's grace had ended, or the lease was lost: no failure
	panicked    = "panicked"
)

// finish ends a span with what its call returned. Methods of an error are code of the user, which may panic.
func finish(ctx context.Context, span trace.Span, err error, returned bool) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	if !returned { // what it panicked with is in the log, with the stack
		mark(span, panicked, "the handler panicked, or ended its goroutine")
		return
	}
	outcome, details := outcomeOf(ctx, err)
	span.SetAttributes(details...)
	switch outcome {
	case ok:
		span.SetAttributes(keyOutcome.String(ok))
	case paused, interrupted:
		span.SetAttributes(keyOutcome.String(outcome), keyReason.String(text(err)))
	default:
		mark(span, outcome, text(err))
	}
}

func mark(span trace.Span, outcome, text string) {
	span.SetAttributes(keyOutcome.String(outcome), semconv.ErrorTypeKey.String(outcome))
	span.SetStatus(codes.Error, text)
}

// outcomeOf reads what a handler returned, in the order in which a Runner does.
func outcomeOf(ctx context.Context, err error) (outcome string, details []attribute.KeyValue) {
	if err == nil {
		return ok, nil
	}
	defer func() {
		if recover() != nil {
			outcome, details = failed, nil
		}
	}()
	if _, is := errors.AsType[*ackfloor.PermanentError](err); is {
		return permanent, nil
	}
	var cause error
	if ctx.Err() != nil {
		cause = context.Cause(ctx)
	}
	if _, is := errors.AsType[*ackfloor.PanicError](err); is {
		return panicked, nil
	}
	if errors.Is(cause, ackfloor.ErrStopping) || errors.Is(cause, ackfloor.ErrLeaseLost) {
		return interrupted, nil
	}
	if pause, is := errors.AsType[*ackfloor.PauseError](err); is {
		return paused, []attribute.KeyValue{keyRetryAfter.Float64(pause.Delay.Seconds())}
	}
	if errors.Is(cause, ackfloor.ErrHandleTimeout) {
		return timedOut, nil
	}
	if after, is := errors.AsType[*ackfloor.RetryAfterError](err); is {
		return retryAfter, []attribute.KeyValue{keyRetryAfter.Float64(after.Delay.Seconds())}
	}
	return failed, nil
}

const longText = 1000 // bytes of an error's text in a span

func text(err error) (s string) {
	defer func() {
		if recover() != nil {
			s = fmt.Sprintf("%T, a method of which panicked", err)
		}
	}()
	s = err.Error()
	if len(s) <= longText {
		return s
	}
	end := longText
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
