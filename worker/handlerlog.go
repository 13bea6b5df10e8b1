package worker

import (
	"context"
	"log/slog"

	"github.com/ackfloor/ackfloor"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
)

type (
	deliveryKey  struct{} // of a handler's context: the delivery
	logFieldsKey struct{} // of one that WithLogFields made
)

// Logger is the logger of the Runner that called the handler, with the stream, the consumer and the message: subject, sequence, attempt; and
// with what WithLogFields added, as package tracing does with the trace's id. ctx is the handler's context or one that was made from it; with any other, such as
// a unit test's, the logger drops what it is given. In a handler of batches it names the stream and the consumer, and LoggerOf the message. It is made on each
// call: a handler that logs much keeps it.
func Logger(ctx context.Context) *zap.Logger {
	d, ok := ctx.Value(deliveryKey{}).(*delivery)
	if !ok {
		return zap.NewNop()
	}
	log := d.attempt.r.log
	if d.attempt.r.batch == nil {
		log = log.With(describe(d)...)
	}
	if more, ok := ctx.Value(logFieldsKey{}).(func(context.Context) []zap.Field); ok {
		log = log.With(more(ctx)...)
	}
	return log
}

// LoggerOf is Logger for one message of a batch.
func LoggerOf(ctx context.Context, m *ackfloor.Message) *zap.Logger {
	return Logger(ctx).With(identity{subject: printable(m.Subject), sequence: m.Sequence}.fields(m.Attempt)...)
}

// Slog is Logger for those who use log/slog. As with Logger, an error has no stack.
func Slog(ctx context.Context) *slog.Logger {
	return slog.New(zapslog.NewHandler(Logger(ctx).Core(), zapslog.AddStacktraceAt(slog.LevelError+1<<10)))
}

// WithLogFields has Logger add what fields returns, which is asked with the context that Logger gets, when it is called and not before.
func WithLogFields(ctx context.Context, fields func(context.Context) []zap.Field) context.Context {
	if outer, ok := ctx.Value(logFieldsKey{}).(func(context.Context) []zap.Field); ok {
		inner := fields
		fields = func(ctx context.Context) []zap.Field { return append(outer(ctx), inner(ctx)...) }
	}
	return context.WithValue(ctx, logFieldsKey{}, fields)
}
