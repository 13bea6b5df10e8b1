package worker

import (
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func logLevel(s string) (zapcore.Level, error) {
	switch s {
	case "debug", "info", "warn", "error":
		return zapcore.ParseLevel(s)
	}
	return 0, fmt.Errorf("log level %q", s)
}

// NewLogger makes the logger that New makes where Config.Logger is nil, for a program that wants to log to the same place, or to give it to
// Connect too. The error is a *ConfigError.
func NewLogger(c Config) (*zap.Logger, error) {
	level := c.LogLevel
	if level == "" {
		level = "info"
	}
	log, err := newLogger(level, c.LogFormat)
	if err != nil {
		return nil, &ConfigError{Problems: []string{err.Error()}}
	}
	return log, nil
}

// newLogger logs to standard error: as JSON, or as text for people where it is a terminal. Both quote field values, so that
// a subject or an error with control characters can't forge a line.
func newLogger(level, format string) (*zap.Logger, error) {
	l, err := logLevel(level)
	if err != nil {
		return nil, err
	}
	if format == "" {
		format = "json"
		if fi, err := os.Stderr.Stat(); err == nil && fi.Mode()&os.ModeCharDevice != 0 {
			format = "console"
		}
	}
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	enc.EncodeDuration = zapcore.StringDurationEncoder
	var encoder zapcore.Encoder = zapcore.NewJSONEncoder(enc)
	if format == "console" {
		enc.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		encoder = zapcore.NewConsoleEncoder(enc)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), l)), nil
}

// repeats tells what was said already, so that what is asked for again and again is reported once a minute.
type repeats struct {
	mu   sync.Mutex
	said map[string]time.Time
}

// first tells whether a text was not said in the last minute.
func (r *repeats) first(text string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.said[text]; ok && now.Sub(last) < time.Minute {
		return false
	}
	if r.said == nil || len(r.said) >= 256 { // so many different ones are not a repetition
		r.said = make(map[string]time.Time)
	}
	r.said[text] = now
	return true
}

func orNop(l *zap.Logger) *zap.Logger {
	if l == nil {
		return zap.NewNop()
	}
	return l
}
