package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/emersion/go-smtp"
)

const pause = 3 * time.Second

// mailerTo is a mailer as the service makes it, with its own variables.
func mailerTo(t testing.TB, address, ca string) *mailer {
	t.Helper()
	s, err := parseServer(address, ca)
	must(t, err)
	p := &pool{server: s}
	t.Cleanup(func() { p.end(time.Time{}, true) })
	return &mailer{pool: p, from: shopAddress, pause: pause, limit: 20 * time.Second}
}

// outcome is what a worker would do with err: "sent", "permanent", "pause 3s", "retry after 1m0s", "retry".
func outcome(err error) string {
	if err == nil {
		return "sent"
	}
	if _, ok := errors.AsType[*ackfloor.PermanentError](err); ok {
		return "permanent"
	}
	if p, ok := errors.AsType[*ackfloor.PauseError](err); ok {
		return "pause " + p.Delay.String()
	}
	if r, ok := errors.AsType[*ackfloor.RetryAfterError](err); ok {
		return "retry after " + r.Delay.String()
	}
	return "retry"
}

var ada = `{"email":"ada@example.com","order_id":"1001","sku":"mug","quantity":2}`

func TestAMailArrives(t *testing.T) {
	t.Parallel()
	r := receive(t, nil)
	m := mailerTo(t, "smtp://"+r.addr+"?starttls=none", "")
	must(t, ackfloor.JSON(m.send).Handle(t.Context(), order(3, ada)))
	got := r.got()
	if len(got) != 1 || got[0].from != "shop@example.com" || got[0].to != "ada@example.com" || got[0].utf8 {
		t.Fatalf("%+v", got)
	}
	if m := read(t, got[0].data); m.subject != "Your order 1001" || !strings.Contains(m.text, "2 x mug") {
		t.Errorf("%+v", m)
	}
}

func TestWhatAServerSaysDecides(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(string, string) error
		want   string
		kept   int // mails that the server has accepted, whatever it said
	}{
		"all is well":                     {nil, "sent", 1},
		"421 at EHLO":                     {at("EHLO", says(421, 4, 3, 2, "shutting down")), "pause 3s", 0},
		"421 with a hint":                 {at("EHLO", says(421, 4, 7, 0, "try again in 2 minutes")), "pause 2m0s", 0},
		"554 at EHLO":                     {at("EHLO", says(554, 5, 7, 1, "no service for your address")), "pause 30s", 0},
		"450 for the sender":              {at("MAIL", says(450, 4, 7, 1, "too fast")), "pause 3s", 0},
		"452 for the sender":              {at("MAIL", says(452, 4, 3, 1, "insufficient system storage")), "pause 3s", 0},
		"530 for the sender":              {at("MAIL", says(530, 5, 7, 0, "must issue a STARTTLS command first")), "pause 30s", 0},
		"550 for the sender":              {at("MAIL", says(550, 5, 7, 1, "sender rejected")), "pause 30s", 0},
		"greylisted":                      {at("RCPT", says(450, 4, 2, 0, "Greylisted, try again in 60 seconds")), "retry after 1m0s", 0},
		"451 without a hint":              {at("RCPT", says(451, 4, 7, 1, "please come back")), "retry", 0},
		"a mailbox that is full":          {at("RCPT", says(452, 4, 2, 2, "mailbox full")), "retry", 0},
		"a mail system that is full":      {at("RCPT", says(452, 4, 3, 1, "insufficient system storage")), "pause 3s", 0},
		"421 for the recipient":           {at("RCPT", says(421, 4, 7, 0, "too many errors")), "pause 3s", 0},
		"no such user":                    {at("RCPT", says(550, 5, 1, 1, "no such user")), "permanent", 0},
		"no such user, in Postfix' words": {at("RCPT", says(550, 5, 1, 1, "<ada@example.com>: Recipient address rejected: User unknown in relay recipient table")), "permanent", 0},
		"relaying denied":                 {at("RCPT", says(554, 5, 7, 1, "<ada@example.com>: Relay access denied")), "pause 30s", 0},
		"it wants a password":             {at("RCPT", says(530, 5, 7, 0, "Authentication required")), "pause 30s", 0},
		"a mail that is spam":             {at("END", says(554, 5, 7, 1, "spam message rejected")), "permanent", 0},
		"a mail that is too large":        {at("END", says(552, 5, 3, 4, "message too big")), "permanent", 0},
		"throttled":                       {at("END", says(454, 4, 7, 0, "Throttling failure: Maximum sending rate exceeded.")), "pause 3s", 0},
		"451 for the mail":                {at("END", says(451, 4, 7, 1, "scanner busy")), "retry", 0},
		"cut at EHLO":                     {at("EHLO", errCut), "pause 3s", 0},
		"cut at the sender":               {at("MAIL", errCut), "pause 3s", 0},
		"cut at the recipient":            {at("RCPT", errCut), "retry", 0},
		"cut in the middle of the mail":   {at("DATA", errCut), "retry", 0},
		"cut instead of 250":              {at("END", errLate), "retry", 1},
		"hangs at EHLO":                   {at("EHLO", errHang), "pause 3s", 0},
		"hangs at the sender":             {at("MAIL", errHang), "pause 3s", 0},
		"hangs at the recipient":          {at("RCPT", errHang), "retry", 0},
		"hangs in the mail":               {at("DATA", errHang), "retry", 0},
		"hangs behind the mail":           {at("END", errHang), "retry", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := receive(t, c.answer)
			m := mailerTo(t, "smtp://"+r.addr+"?starttls=none", "")
			if strings.HasPrefix(name, "hangs") {
				m.limit = 600 * time.Millisecond
			}
			began := time.Now()
			err := ackfloor.JSON(m.send).Handle(t.Context(), order(3, ada))
			if got := outcome(err); got != c.want || len(r.got()) != c.kept {
				t.Errorf("%s (%v), and %d kept; want %s, and %d", got, err, len(r.got()), c.want, c.kept)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			unknown := strings.HasSuffix(name, "behind the mail") || name == "cut instead of 250" || name == "cut in the middle of the mail" || name == "hangs in the mail"
			if got := m.unanswered.Load() == 1; got != unknown {
				t.Errorf("nobody knows whether it was accepted: %v, want %v", got, unknown)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %v", err)
			}
		})
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	refused := l.Addr().String()
	must(t, l.Close())
	for name, c := range map[string]struct {
		address string
		greet   func(net.Conn) bool
		want    string
	}{
		"nobody listens":          {refused, nil, "pause 3s"},
		"no such host":            {"mail.invalid:587", nil, "pause 3s"},
		"hangs before it greets":  {"", func(net.Conn) bool { return false }, "pause 3s"},
		"cuts before it greets":   {"", func(c net.Conn) bool { _ = c.Close(); return false }, "pause 3s"},
		"greets with 421":         {"", greets("421 4.3.2 too busy, try again in 90 s"), "pause 1m30s"},
		"greets with 554":         {"", greets("554 5.7.1 no service for you"), "pause 30s"},
		"speaks another protocol": {"", greets("SSH-2.0-OpenSSH_9.9"), "pause 3s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := c.address
			if c.greet != nil {
				address = receive(t, nil, func(_ *smtp.Server, r *receiver) { r.greet = c.greet }).addr
			}
			m := mailerTo(t, "smtp://"+address+"?starttls=none", "")
			if strings.HasPrefix(name, "hangs") {
				m.limit = 300 * time.Millisecond
			}
			if got := outcome(ackfloor.JSON(m.send).Handle(t.Context(), order(3, ada))); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func greets(line string) func(net.Conn) bool {
	return func(c net.Conn) bool {
		_, _ = fmt.Fprintf(c, "%s\r\n", line)
		_ = c.Close()
		return false
	}
}

// A handler that is told to end, at whatever step, ends at once and says why: a stop is no failure.
func TestAStopEndsASendingAtOnce(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"EHLO", "MAIL", "RCPT", "DATA", "END"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			there := make(chan struct{})
			r := receive(t, func(s, _ string) error {
				if s == step {
					close(there)
					return errHang
				}
				return nil
			})
			m := mailerTo(t, "smtp://"+r.addr+"?starttls=none", "")
			m.limit = time.Minute
			ctx, stop := context.WithCancelCause(t.Context())
			go func() { <-there; stop(ackfloor.ErrStopping) }()
			began := time.Now()
			err := ackfloor.JSON(m.send).Handle(ctx, order(3, ada))
			if !errors.Is(err, ackfloor.ErrStopping) || outcome(err) != "retry" {
				t.Errorf("%v", err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestAnAddressThatIsNotASCII(t *testing.T) {
	t.Parallel()
	old := receive(t, nil, func(s *smtp.Server, _ *receiver) { s.EnableSMTPUTF8 = false })
	knows := receive(t, nil)
	jörg := `{"email":"Jörg <jörg@bücher.example>","order_id":"1"}`
	m := mailerTo(t, "smtp://"+old.addr+"?starttls=none", "")
	if err := ackfloor.JSON(m.send).Handle(t.Context(), order(3, jörg)); outcome(err) != "permanent" || !errors.Is(err, errNoUTF8) {
		t.Errorf("a server without SMTPUTF8: %v", err)
	}
	if err := ackfloor.JSON(m.send).Handle(t.Context(), order(4, `{"email":"ada@bücher.example"}`)); err != nil || old.got()[0].to != "ada@xn--bcher-kva.example" {
		t.Errorf("a domain alone: %v, %+v", err, old.got())
	}
	m = mailerTo(t, "smtp://"+knows.addr+"?starttls=none", "")
	must(t, ackfloor.JSON(m.send).Handle(t.Context(), order(3, jörg)))
	must(t, ackfloor.JSON(m.send).Handle(t.Context(), order(4, ada)))
	got := knows.got()
	if got[0].to != "jörg@xn--bcher-kva.example" || !got[0].utf8 || got[1].utf8 {
		t.Errorf("a server with SMTPUTF8: %+v", got)
	}
	if r := read(t, got[0].data); r.to.Address != "jörg@xn--bcher-kva.example" || r.to.Name != "Jörg" {
		t.Errorf("the header: %v", r.to)
	}
}
