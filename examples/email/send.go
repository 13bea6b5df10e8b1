package main

import (
	"context"
	"errors"
	"fmt"
	netmail "net/mail"
	"sync/atomic"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/examples/internal/shop"
	"github.com/ackfloor/ackfloor/worker"
	"go.uber.org/zap"
)

// mailer is the handler.
type mailer struct {
	pool  *pool
	from  *netmail.Address
	pause time.Duration
	limit time.Duration // for one mail, below the handle timeout: a server that hangs is a case of its own, and no failure of the handler

	unanswered atomic.Uint64 // mails of which nobody knows whether the server has accepted them
}

// send writes a mail and sends it.
func (s *mailer) send(ctx context.Context, c customer, m *ackfloor.Message) error {
	l, err := write(s.from, c, m)
	if err != nil {
		return ackfloor.Permanent(err)
	}
	limited, cancel := context.WithTimeoutCause(ctx, s.limit, errTooSlow)
	defer cancel()
	if err := s.pool.send(limited, l); err != nil {
		return s.judge(ctx, l, err)
	}
	shop.Show(m, "mail to %s: %s", l.to.Address, l.subject)
	return nil
}

func (s *mailer) judge(ctx context.Context, l *letter, err error) error {
	f, ok := errors.AsType[*failure](err)
	if !ok {
		return err
	}
	if f.unanswered() {
		// The marks of package once don't know of this case: for them the call has ended, with an error.
		s.unanswered.Add(1)
		worker.Logger(ctx).Warn("possible duplicate: all of the mail was sent and the mail server did not answer, so it will be sent again",
			zap.String("message_id", l.id), zap.Error(f))
	}
	if ctx.Err() != nil { // told to stop, or the lease is lost: nobody's failure
		return fmt.Errorf("%w: %w", context.Cause(ctx), f)
	}
	return f.verdict(s.pause)
}
