package tracing

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/internal/outcome"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// finish ends a span with what its call returned. Methods of an error are code of the user, which may panic.
func finish(ctx context.Context, span trace.Span, err error, returned bool) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	if !returned { // what it panicked with is in the log, with the stack
		mark(span, outcome.Panicked, "the handler panicked, or ended its goroutine")
		return
	}
	out := outcome.Of(ctx, err)
	span.SetAttributes(delayOf(out, err)...)
	switch out {
	case outcome.OK:
		span.SetAttributes(keyOutcome.String(out.String()))
	case outcome.Paused, outcome.Interrupted:
		span.SetAttributes(keyOutcome.String(out.String()), keyReason.String(text(err)))
	default:
		mark(span, out, text(err))
	}
}

func mark(span trace.Span, out outcome.Outcome, text string) {
	span.SetAttributes(keyOutcome.String(out.String()), semconv.ErrorTypeKey.String(out.String()))
	span.SetStatus(codes.Error, text)
}

// delayOf is the attribute of how long a handler asked to wait, if it did.
func delayOf(out outcome.Outcome, err error) []attribute.KeyValue {
	switch out {
	case outcome.Paused:
		if pause, is := errors.AsType[*ackfloor.PauseError](err); is {
			return []attribute.KeyValue{keyRetryAfter.Float64(pause.Delay.Seconds())}
		}
	case outcome.RetryAfter:
		if after, is := errors.AsType[*ackfloor.RetryAfterError](err); is {
			return []attribute.KeyValue{keyRetryAfter.Float64(after.Delay.Seconds())}
		}
	}
	return nil
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
