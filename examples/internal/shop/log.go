package shop

import (
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger logs to standard error as worker.Main does: as JSON, or as text for people where it is a terminal. level and format are
// those that worker.FromEnv has checked.
func newLogger(level, format string) *zap.Logger {
	l, _ := zapcore.ParseLevel(level)
	if fi, err := os.Stderr.Stat(); format == "" && err == nil && fi.Mode()&os.ModeCharDevice != 0 {
		format = "console"
	}
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	enc.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(enc)
	if format == "console" {
		enc.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		encoder = zapcore.NewConsoleEncoder(enc)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), l))
}
