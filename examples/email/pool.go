package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	idleLimit = 30 * time.Second // a session that nobody used for so long takes leave
	idleLook  = 5 * time.Second
	mostMails = 100             // on one session; many servers end it after some more
	quitLimit = 2 * time.Second // for the answer to QUIT
	askLimit  = 3 * time.Second // for a session to say that it is still there
)

// pool keeps sessions between two mails, so that not each begins with a handshake, and so that a mail is noted as sent at once when the server has
// accepted it, without a farewell in between. It never holds more than there are slots.
type pool struct {
	server *server

	mu     sync.Mutex
	idle   []*session // the one that was used last at the end
	closed bool
}

// send sends a mail on a session that is there, or on a new one.
func (p *pool) send(ctx context.Context, l *letter) error {
	s, err := p.take(ctx)
	if err != nil {
		return err
	}
	err = s.send(ctx, l)
	f, _ := errors.AsType[*failure](err)
	if ctx.Err() != nil || f != nil && f.lost() {
		_ = s.conn.Close()
		return err
	}
	p.give(s)
	return err
}

func (p *pool) take(ctx context.Context) (*session, error) {
	asking, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	for s := p.last(); s != nil; s = p.last() {
		if s.ready(asking) {
			return s, nil
		}
		_ = s.conn.Close() // the server has ended it meanwhile
	}
	return p.server.open(ctx)
}

func (p *pool) last() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	s := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return s
}

func (p *pool) give(s *session) {
	s.since = time.Now()
	p.mu.Lock()
	keep := !p.closed && s.mails < mostMails
	if keep {
		p.idle = append(p.idle, s)
	}
	p.mu.Unlock()
	if !keep {
		go s.quit() // it ends within quitLimit; the mail is sent, and waits for nothing
	}
}

// run ends sessions that nobody uses, and when ctx ends all of them.
func (p *pool) run(ctx context.Context) error {
	ticker := time.NewTicker(idleLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			p.end(time.Time{}, true)
			return nil
		case now := <-ticker.C:
			p.end(now.Add(-idleLimit), false)
		}
	}
}

// end takes leave on the sessions that were not used since, or on all.
func (p *pool) end(since time.Time, all bool) {
	p.mu.Lock()
	var over, keep []*session
	for _, s := range p.idle {
		if all || s.since.Before(since) {
			over = append(over, s)
		} else {
			keep = append(keep, s)
		}
	}
	p.idle, p.closed = keep, p.closed || all
	p.mu.Unlock()
	var leaving sync.WaitGroup
	for _, s := range over {
		leaving.Go(s.quit)
	}
	leaving.Wait()
}
