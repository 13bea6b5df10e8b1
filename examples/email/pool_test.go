package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/emersion/go-smtp"
)

func TestOneSessionTakesManyMails(t *testing.T) {
	t.Parallel()
	r := receive(t, nil)
	m := mailerTo(t, "smtp://"+r.addr+"?starttls=none", "")
	for i := range 5 {
		must(t, ackfloor.JSON(m.send).Handle(t.Context(), order(uint64(i+1), ada)))
	}
	if len(r.got()) != 5 || r.sessions != 1 {
		t.Errorf("%d mails on %d sessions, want 5 on 1", len(r.got()), r.sessions)
	}
}

func TestASessionIsLeftAfterManyMails(t *testing.T) {
	t.Parallel()
	r := receive(t, nil)
	m := mailerTo(t, "smtp://"+r.addr+"?starttls=none", "")
	for i := range mostMails + 1 {
		must(t, ackfloor.JSON(m.send).Handle(t.Context(), order(uint64(i+1), ada)))
	}
	if len(r.got()) != mostMails+1 || r.sessions != 2 {
		t.Errorf("%d mails on %d sessions, want 2", len(r.got()), r.sessions)
	}
}

// A refused recipient costs no session; one that the server has ended costs no mail.
func TestWhatASessionSurvives(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer   error
		between  func(*receiver)
		sessions int
	}{
		"550":  {says(550, 5, 1, 1, "no such user"), nil, 1},
		"450":  {says(450, 4, 2, 0, "greylisted"), nil, 1},
		"421":  {says(421, 4, 2, 0, "bye"), nil, 2},
		"cut":  {errCut, nil, 2},
		"hang": {errHang, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var once sync.Once
			r := receive(t, func(step, _ string) (err error) {
				if step == "RCPT" {
					once.Do(func() { err = c.answer })
				}
				return err
			})
			m := mailerTo(t, "smtp://"+r.addr+"?starttls=none", "")
			if c.answer == errHang {
				m.limit = time.Second
			}
			if err := ackfloor.JSON(m.send).Handle(t.Context(), order(1, ada)); err == nil {
				t.Fatal("it was sent")
			}
			m.limit = 20 * time.Second
			must(t, ackfloor.JSON(m.send).Handle(t.Context(), order(1, ada)))
			if len(r.got()) != 1 || r.sessions != c.sessions {
				t.Errorf("%d mails on %d sessions, want 1 on %d", len(r.got()), r.sessions, c.sessions)
			}
		})
	}
}

func TestASessionThatTheServerEndedMeanwhileIsReplaced(t *testing.T) {
	t.Parallel()
	r := receive(t, nil, func(s *smtp.Server, _ *receiver) { s.ReadTimeout = 50 * time.Millisecond })
	m := mailerTo(t, "smtp://"+r.addr+"?starttls=none", "")
	must(t, ackfloor.JSON(m.send).Handle(t.Context(), order(1, ada)))
	time.Sleep(200 * time.Millisecond)
	must(t, ackfloor.JSON(m.send).Handle(t.Context(), order(2, ada)))
	if len(r.got()) != 2 || r.sessions != 2 {
		t.Errorf("%d mails on %d sessions, want 2 on 2", len(r.got()), r.sessions)
	}
}

func TestIdleSessionsTakeLeave(t *testing.T) {
	t.Parallel()
	r := receive(t, nil)
	m := mailerTo(t, "smtp://"+r.addr+"?starttls=none", "")
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			if err := ackfloor.JSON(m.send).Handle(t.Context(), order(uint64(i+1), ada)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	m.pool.end(time.Now().Add(-time.Minute), false)
	if len(m.pool.idle) == 0 {
		t.Error("one that was used just now has left")
	}
	m.pool.end(time.Now().Add(time.Minute), false)
	if len(m.pool.idle) != 0 {
		t.Error("one that was not used stays")
	}
	ctx, stop := context.WithCancel(t.Context())
	must(t, ackfloor.JSON(m.send).Handle(t.Context(), order(4, ada)))
	stop()
	must(t, m.pool.run(ctx))
	if len(m.pool.idle) != 0 || !m.pool.closed {
		t.Error("one stays when all is over")
	}
}

// How fast it is without a limit: a figure, and no promise.
func BenchmarkSend(b *testing.B) {
	r := receive(b, nil)
	m := mailerTo(b, "smtp://"+r.addr+"?starttls=none", "")
	l, err := write(shopAddress, customer{Email: "ada@example.com", Order: "1"}, order(1, nil))
	must(b, err)
	b.Run("one session", func(b *testing.B) {
		for b.Loop() {
			must(b, m.pool.send(b.Context(), l))
		}
	})
	b.Run("a session each", func(b *testing.B) {
		for b.Loop() {
			s, err := m.pool.server.open(b.Context())
			must(b, err)
			must(b, s.send(b.Context(), l))
			s.quit()
		}
	})
}
