package main

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/emersion/go-smtp"
)

const (
	password = "s3cret/p@ss"
	wrong    = "wr0ng:p@ss"
)

func starttls(c *tls.Config) func(*smtp.Server, *receiver) {
	return func(s *smtp.Server, _ *receiver) { s.TLSConfig, s.AllowInsecureAuth = c, false }
}

func implicit(c *tls.Config) func(*smtp.Server, *receiver) {
	return func(s *smtp.Server, r *receiver) {
		s.AllowInsecureAuth = false
		r.greet = nil
		r.secure = c
	}
}

func TestTLSAndAuthentication(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	later := time.Now().Add(time.Hour)
	good := ca.config(t, "127.0.0.1", later)
	us := url.UserPassword("shop", password).String() + "@"
	them := url.UserPassword("shop", wrong).String() + "@"
	for name, c := range map[string]struct {
		opt    func(*smtp.Server, *receiver)
		scheme string
		user   string
		query  string
		ca     string
		want   string
		why    string // part of the error
	}{
		"STARTTLS, with a password":             {starttls(good), "smtp", us, "", ca.file, "sent", ""},
		"STARTTLS, without":                     {starttls(good), "smtp", "", "?starttls=required", ca.file, "sent", ""},
		"STARTTLS where it is offered":          {starttls(good), "smtp", us, "?starttls=opportunistic", ca.file, "sent", ""},
		"TLS from the first byte":               {implicit(good), "smtps", us, "", ca.file, "sent", ""},
		"a certificate of somebody else":        {starttls(other.config(t, "127.0.0.1", later)), "smtp", us, "", ca.file, "pause 30s", "certificate signed by unknown authority"},
		"the same, from the first byte":         {implicit(other.config(t, "127.0.0.1", later)), "smtps", us, "", ca.file, "pause 30s", "certificate signed by unknown authority"},
		"a private CA that nobody told of":      {starttls(good), "smtp", us, "", "", "pause 30s", "certificate signed by unknown authority"},
		"a certificate, opportunistic":          {starttls(other.config(t, "127.0.0.1", later)), "smtp", us, "?starttls=opportunistic", ca.file, "pause 30s", "unknown authority"},
		"a certificate for another name":        {starttls(ca.config(t, "mail.example.com", later)), "smtp", us, "", ca.file, "pause 30s", "127.0.0.1"},
		"a certificate that is over":            {starttls(ca.config(t, "127.0.0.1", time.Now().Add(-time.Hour))), "smtp", us, "", ca.file, "pause 30s", "expired"},
		"no STARTTLS, and it is required":       {func(*smtp.Server, *receiver) {}, "smtp", us, "", ca.file, "pause 30s", errNoTLS.Error()},
		"no STARTTLS, and it is not":            {func(*smtp.Server, *receiver) {}, "smtp", "", "?starttls=opportunistic", ca.file, "sent", ""},
		"TLS where there is none":               {func(*smtp.Server, *receiver) {}, "smtps", us, "", ca.file, "pause 3s", "TLS"},
		"a password that is wrong":              {starttls(good), "smtp", them, "", ca.file, "pause 30s", "535"},
		"a password that is wrong, and is told": {both(starttls(good), echoes), "smtp", them, "", ca.file, "pause 30s", "xxxxx"},
		"a server that knows no password":       {both(starttls(good), func(s *smtp.Server, r *receiver) { s.Backend = noAuth(r) }), "smtp", us, "", ca.file, "pause 30s", errMechanisms.Error()},
		"454 for the password":                  {both(starttls(good), answers("AUTH", says(454, 4, 7, 0, "try again in 5 seconds"))), "smtp", us, "", ca.file, "pause 5s", "454"},
		"cut while it authenticates":            {both(starttls(good), answers("AUTH", errCut)), "smtp", us, "", ca.file, "pause 3s", "authentication"},
		"hangs while it authenticates":          {both(starttls(good), answers("AUTH", errHang)), "smtp", us, "", ca.file, "pause 3s", errTooSlow.Error()},
		"hangs in the handshake":                {starttls(&tls.Config{GetConfigForClient: hangs(t)}), "smtp", us, "", ca.file, "pause 3s", errTooSlow.Error()},
		"hangs in the first handshake":          {implicit(&tls.Config{GetConfigForClient: hangs(t)}), "smtps", us, "", ca.file, "pause 3s", errTooSlow.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := receive(t, nil, c.opt)
			m := mailerTo(t, c.scheme+"://"+c.user+r.addr+c.query, c.ca)
			if strings.HasPrefix(name, "hangs") {
				m.limit = 500 * time.Millisecond
			}
			err := ackfloor.JSON(m.send).Handle(t.Context(), order(3, ada))
			if got := outcome(err); got != c.want {
				t.Fatalf("%s (%v), want %s", got, err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v, want %q in it", err, c.why)
			}
			showsNoSecret(t, err)
			sent := len(r.got()) == 1
			if sent != (err == nil) {
				t.Errorf("it arrived: %v", sent)
			}
			if sent && c.user != "" && (len(r.users) != 1 || r.users[0] != "shop") {
				t.Errorf("authenticated: %q", r.users)
			}
		})
	}
}

// A server that some machine in between has stripped of STARTTLS is not given the password, whatever SMTP_URL allows.
func TestAPasswordIsNotSentWithoutTLS(t *testing.T) {
	t.Parallel()
	r := receive(t, nil)
	m := mailerTo(t, "smtp://shop:"+url.QueryEscape(password)+"@"+r.addr+"?starttls=opportunistic", "")
	m.pool.server.host = "mail.example.com" // as if it were not this machine
	err := ackfloor.JSON(m.send).Handle(t.Context(), order(3, ada))
	if outcome(err) != "pause 30s" || !errors.Is(err, errUnsafe) || len(r.users) != 0 {
		t.Errorf("%v, authenticated: %q", err, r.users)
	}
}

func showsNoSecret(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for _, secret := range []string{password, wrong, "AHNob3AA"} { // the last: how \0shop\0 begins in base64
		if strings.Contains(err.Error(), secret) {
			t.Errorf("it shows the password: %v", err)
		}
	}
}

func both(a, b func(*smtp.Server, *receiver)) func(*smtp.Server, *receiver) {
	return func(s *smtp.Server, r *receiver) { a(s, r); b(s, r) }
}

func answers(step string, err error) func(*smtp.Server, *receiver) {
	return func(_ *smtp.Server, r *receiver) { r.answer = at(step, err) }
}

// echoes repeats the line that it does not like, as some servers do.
func echoes(s *smtp.Server, r *receiver) {
	answers("AUTH", says(535, 5, 7, 8, "bad line: AUTH PLAIN "+base64.StdEncoding.EncodeToString([]byte("\x00shop\x00"+wrong))+" or "+wrong))(s, r)
}

// noAuth hides that a session can authenticate.
func noAuth(r *receiver) smtp.Backend {
	return smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		s, err := r.session(c)
		return struct{ smtp.Session }{s}, err
	})
}

func hangs(t *testing.T) func(*tls.ClientHelloInfo) (*tls.Config, error) {
	return func(*tls.ClientHelloInfo) (*tls.Config, error) {
		<-t.Context().Done()
		return nil, net.ErrClosed
	}
}
