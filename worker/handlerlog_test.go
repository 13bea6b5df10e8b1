package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// A handler's logger names the message, also from a context that a middleware made, also on a retry, also through slog.
func TestHandlerLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 2)
		withLetters(&r.cfg) // so that a retry is made in place
		type mine struct{}
		w := r.start(ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
			ctx = context.WithValue(ctx, mine{}, "x")
			ctx = WithLogFields(ctx, func(ctx context.Context) []zap.Field {
				return []zap.Field{zap.String("trace_id", ctx.Value(mine{}).(string))}
			})
			ctx = WithLogFields(ctx, func(context.Context) []zap.Field { return []zap.Field{zap.String("tenant", "acme")} })
			Logger(ctx).Info("by zap", zap.Int("n", 7))
			Slog(ctx).Info("by slog", "n", 7)
			if m.Sequence == 2 && m.Attempt == 1 {
				return errors.New("once more")
			}
			return nil
		}))
		r.floor(2, 10*time.Second)
		w.ok(w.end())
		for _, by := range []string{"by zap", "by slog"} {
			lines := r.logs.FilterMessage(by).All()
			if len(lines) != 3 {
				t.Fatalf("%s: %d lines of 3", by, len(lines))
			}
			for i, want := range []struct {
				seq     uint64
				attempt int64
			}{{1, 1}, {2, 1}, {2, 2}} {
				got := lines[i].ContextMap()
				if got["stream"] != rigStream || got["consumer"] != rigConsumer || got["subject"] != fmt.Sprintf("events.%d", want.seq-1) || got["sequence"] != want.seq || got["attempt"] != want.attempt ||
					got["trace_id"] != "x" || got["tenant"] != "acme" || got["n"] != int64(7) {
					t.Errorf("%s, line %d: %v", by, i, got)
				}
			}
		}
	})
}

// In a batch the logger names no single message, and LoggerOf does.
func TestBatchLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 3)
		w := r.start(batchRig{ackfloor.BatchHandlerFunc(func(ctx context.Context, b *ackfloor.Batch) error {
			Logger(ctx).Info("all")
			for _, m := range b.Messages {
				LoggerOf(ctx, m).Info("one")
			}
			return nil
		})})
		r.floor(3, 10*time.Second)
		w.ok(w.end())
		if got := r.logs.FilterMessage("all").All()[0].ContextMap(); got["sequence"] != nil || got["consumer"] != rigConsumer {
			t.Errorf("of the batch: %v", got)
		}
		lines := r.logs.FilterMessage("one").All()
		if len(lines) != 3 || lines[2].ContextMap()["sequence"] != uint64(3) {
			t.Errorf("of its messages: %v", lines)
		}
	})
}

// A handler that is called by a unit test has a logger too, which drops what it is given.
func TestLoggerWithoutRunner(t *testing.T) {
	Logger(t.Context()).Info("nobody hears this")
	Slog(t.Context()).Info("nor this")
}

// What is logged through slog carries message, level, fields in order, groups, errors and durations, and obeys the handler's level.
func TestFromSlog(t *testing.T) {
	var out bytes.Buffer
	log := FromSlog(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}))
	log.Debug("not shown")
	log.With(zap.String("stream", "EVENTS"), zap.Namespace("outer")).With(zap.Int("i", 1), zap.Namespace("inner")).Error("shown",
		zap.Error(errors.New("it broke")), zap.Duration("delay", time.Second), zap.Strings("list", []string{"a", "b"}), zap.Skip(), zap.Namespace("deep"), zap.Uint64("u", 2),
		zap.Namespace("deeper"), zap.Bool("b", true))
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	inner, _ := got["outer"].(map[string]any)["inner"].(map[string]any)
	deep, _ := inner["deep"].(map[string]any)
	deeper, _ := deep["deeper"].(map[string]any)
	if got["msg"] != "shown" || got["level"] != "ERROR" || got["stream"] != "EVENTS" || got["outer"].(map[string]any)["i"] != 1.0 || inner["error"] != "it broke" ||
		inner["delay"] != float64(time.Second) || len(inner["list"].([]any)) != 2 || deep["u"] != 2.0 || deeper["b"] != true {
		t.Errorf("logged %s", out.String())
	}
	for level, want := range map[zapcore.Level]string{zap.InfoLevel: "INFO", zap.WarnLevel: "WARN", zap.DPanicLevel: "ERROR+4"} {
		out.Reset()
		log.Log(level, "said")
		if !bytes.Contains(out.Bytes(), []byte(`"level":"`+want+`"`)) {
			t.Errorf("at %v: logged %s", level, out.String())
		}
	}
}

// A whole worker logs to slog.
func TestWorkerLogsToSlog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testutil.Bubble(t), 1)
		var out bytes.Buffer
		r.cfg.Logger = FromSlog(slog.NewTextHandler(&out, nil))
		w := r.start(ackfloor.HandlerFunc(func(ctx context.Context, _ *ackfloor.Message) error {
			Slog(ctx).Info("handled")
			return nil
		}))
		r.floor(1, 10*time.Second)
		w.ok(w.end())
		for _, want := range []string{"msg=handled", "stream=EVENTS", "sequence=1", `msg="drained: the next worker`} {
			if !bytes.Contains(out.Bytes(), []byte(want)) {
				t.Errorf("no %q in %s", want, out.String())
			}
		}
	})
}

// Logging below the level costs a handler little; and a Runner whose handler logs nothing pays nothing.
func BenchmarkLogger(b *testing.B) {
	core, _ := observer.New(zap.WarnLevel)
	d := &delivery{}
	r := &Runner{log: zap.New(core), values: context.Background()}
	d.attempt.r, d.attempt.d = r, d
	b.ReportAllocs()
	for range b.N {
		Logger(&d.attempt).Debug("nothing")
	}
}
