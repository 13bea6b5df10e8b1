package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// await takes a step of binding again and again until it succeeds, it is no use, or the start-up limit passes.
func (r *Runner) await(ctx, limit context.Context, step func(context.Context) error) error {
	began := time.Now()
	said := ""
	var answer error // the last one
	for {
		err := step(limit)
		if err == nil {
			return nil
		}
		if limit.Err() != nil && answer != nil {
			err = answer // the request was cut off by the limit: what was said before tells more
		}
		answer = err
		if ctx.Err() != nil {
			return context.Canceled
		}
		if final(err) {
			return err
		}
		if r.nc.IsClosed() {
			return fmt.Errorf("worker: the connection is closed for good: %w", nats.ErrConnectionClosed)
		}
		what := r.missing(err)
		if said != what {
			said = what
			r.log.Warn("waiting for "+printable(what), zap.Duration("limit", r.cfg.StartupTimeout), zap.String("error", shown(err.Error())))
		}
		wait := time.NewTimer(100 * time.Millisecond)
		select {
		case <-limit.Done():
			wait.Stop()
			if ctx.Err() != nil {
				return context.Canceled
			}
			return &UnavailableError{What: what, Waited: time.Since(began), Err: err}
		case <-wait.C:
		}
	}
}

// final tells whether waiting can't help.
func final(err error) bool {
	var c *ConfigError
	var p *PermissionError
	return errors.As(err, &c) || errors.As(err, &p)
}

// missing names what an error says is not there.
func (r *Runner) missing(err error) string {
	switch {
	case apiCode(err) == codeStreamNotFound:
		return fmt.Sprintf("stream %q", r.cfg.Stream)
	case apiCode(err) == codeConsumerNotFound:
		return fmt.Sprintf("consumer %q on stream %q", r.cfg.Consumer, r.cfg.Stream)
	case !r.nc.IsConnected():
		return "the server"
	case errors.Is(err, deadletter.ErrNoStream):
		return fmt.Sprintf("stream %q for dead letters", r.cfg.DeadLetter)
	}
	return fmt.Sprintf("JetStream (stream %q, consumer %q)", r.cfg.Stream, r.cfg.Consumer)
}
