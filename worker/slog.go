package worker

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// FromSlog makes a logger for Config.Logger and Connection.Logger that writes to a handler of log/slog, which then decides on levels and form. zap
// itself brings only the other direction, which Slog uses.
func FromSlog(h slog.Handler) *zap.Logger { return zap.New(slogCore{context.Background(), h}) }

// slogCore is a zapcore.Core in front of a slog.Handler.
type slogCore struct {
	ctx context.Context // zap passes none on
	h   slog.Handler
}

func (c slogCore) Enabled(l zapcore.Level) bool { return c.h.Enabled(c.ctx, slogLevel(l)) }

func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	attrs, groups := slogAttrs(fields)
	h := c.h
	if len(attrs) > 0 {
		h = h.WithAttrs(attrs)
	}
	for _, g := range groups {
		h = h.WithGroup(g.name)
		if len(g.attrs) > 0 {
			h = h.WithAttrs(g.attrs)
		}
	}
	return slogCore{c.ctx, h}
}

func (c slogCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

func (c slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	rec := slog.NewRecord(e.Time, slogLevel(e.Level), e.Message, e.Caller.PC)
	attrs, groups := slogAttrs(fields)
	if e.LoggerName != "" {
		attrs = append(attrs, slog.String("logger", e.LoggerName))
	}
	if e.Stack != "" {
		attrs = append(attrs, slog.String("stacktrace", e.Stack))
	}
	for i := len(groups) - 1; i >= 0; i-- { // the innermost first
		inner := groups[i].attrs
		if i+1 < len(groups) {
			inner = append(inner, slog.Attr{Key: groups[i+1].name, Value: slog.GroupValue(groups[i+1].attrs...)})
		}
		groups[i].attrs = inner
	}
	if len(groups) > 0 {
		attrs = append(attrs, slog.Attr{Key: groups[0].name, Value: slog.GroupValue(groups[0].attrs...)})
	}
	rec.AddAttrs(attrs...)
	return c.h.Handle(c.ctx, rec)
}

func (c slogCore) Sync() error { return nil }

func slogLevel(l zapcore.Level) slog.Level {
	switch {
	case l <= zapcore.DebugLevel:
		return slog.LevelDebug
	case l == zapcore.InfoLevel:
		return slog.LevelInfo
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	case l == zapcore.ErrorLevel:
		return slog.LevelError
	}
	return slog.LevelError + 4
}

// slogGroup is what stands behind a zap.Namespace: everything up to the next one, which is inside of it.
type slogGroup struct {
	name  string
	attrs []slog.Attr
}

func slogAttrs(fields []zapcore.Field) (attrs []slog.Attr, groups []slogGroup) {
	for _, f := range fields {
		switch {
		case f.Type == zapcore.NamespaceType:
			groups = append(groups, slogGroup{name: f.Key})
		case f.Type == zapcore.SkipType:
		case len(groups) > 0:
			g := &groups[len(groups)-1]
			g.attrs = append(g.attrs, slogAttr(f)...)
		default:
			attrs = append(attrs, slogAttr(f)...)
		}
	}
	return attrs, groups
}

// slogAttr is a field in slog's terms: one attribute, or those that an inlined object has.
func slogAttr(f zapcore.Field) []slog.Attr {
	switch f.Type {
	case zapcore.StringType:
		return []slog.Attr{slog.String(f.Key, f.String)}
	case zapcore.ErrorType:
		return []slog.Attr{slog.Any(f.Key, f.Interface)}
	}
	to := zapcore.NewMapObjectEncoder()
	f.AddTo(to)
	out := make([]slog.Attr, 0, len(to.Fields))
	for _, key := range slices.Sorted(maps.Keys(to.Fields)) { // several only of an inlined object
		out = append(out, slog.Any(key, to.Fields[key]))
	}
	return out
}
