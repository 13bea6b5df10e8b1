package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/examples/internal/shop"
	"github.com/ackfloor/ackfloor/limit"
	"github.com/ackfloor/ackfloor/once"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/worker"
	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// service is what main knows before the variables have their defaults.
type service struct {
	told bool // WORKER_START was set
}

// open reads the variables and puts the parts together. It doesn't connect to the mail server: one that is out when the service starts
// is no other case than one that goes out later.
func (s service) open(ctx context.Context, e shop.Env) (shop.Work, error) {
	set, err := fromEnv()
	if err != nil {
		return shop.Work{}, err
	}
	var parts []shutdown.Part
	if set.server == nil {
		box, err := openOutbox(filepath.Join(e.Dir, "outbox"), e.Say)
		if err != nil {
			return shop.Work{}, err
		}
		set.server = box.server()
		parts = append(parts, shutdown.Part{Name: "outbox", Run: box.run})
	}
	sent, err := once.NewKV(e.JS, once.KVConfig{
		InDoubt: once.Repeat, // a confirmation that never comes is worse than one that comes twice
		OnDoubt: func(d once.Doubt) { warn(e, d) },
		OnError: func(err error) { e.Config.Logger.Warn("once", zap.Error(err)) },
	})
	if err != nil {
		return shop.Work{}, err
	}
	p := &pool{server: set.server}
	m := &mailer{pool: p, from: set.from, pause: set.pause, limit: e.Config.HandleTimeout * 2 / 3}
	start := s.start(ctx, e)
	return shop.Work{
		Handler: ackfloor.Chain(ackfloor.JSON(m.send), sent.Wrap),
		Config: func(c *worker.Config) {
			c.Start = start
			c.Gate = set.gate
		},
		Parts: append([]shutdown.Part{{Name: "connections", Run: p.run}}, parts...), // they say goodbye before the receiver ends
		Close: func() error {
			if n := sent.Stats().PossibleDuplicates + m.unanswered.Load(); n > 0 {
				e.Say("mails that may have been sent twice: %d; the log names them", n)
			}
			return nil
		},
	}, nil
}

// warn tells of a mail that a customer may get twice, by name.
func warn(e shop.Env, d once.Doubt) {
	e.Config.Logger.Warn("possible duplicate: the process that was sending this mail died, and it is sent again",
		zap.String("subject", d.Message.Subject), zap.Uint64("sequence", d.Message.Sequence), zap.Time("since", d.Since),
		zap.String("message_id", messageID(d.Message, "")))
}

// gate is the provider's limit; nil: there is none. The burst is 1, so that neither a restart nor a time of rest adds to it.
func gate(perSecond rate.Limit) (worker.Gate, error) {
	if perSecond == rate.Inf {
		return nil, nil
	}
	g, err := limit.Rate(rate.NewLimiter(perSecond, 1))
	if err != nil {
		return nil, fmt.Errorf("EMAIL_RATE: %w", err)
	}
	return g, nil
}
