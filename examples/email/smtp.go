package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/wneessen/go-mail/smtp"
)

// server is the mail server, and how to talk to it.
type server struct {
	addr, host     string
	implicit       bool   // TLS from the first byte, else by STARTTLS
	starttls       string // required, opportunistic, none
	user, password string // "": no authentication
	helo           string // the name of this machine; "": as it calls itself
	tls            *tls.Config
	hide           *strings.Replacer // takes the password out of a text; nil: there is none
}

// session is a connection on which mails can be sent. It is used by one at a time.
type session struct {
	server *server
	conn   net.Conn // what is under TLS
	client *smtp.Client
	mails  int       // sent on it
	since  time.Time // when it was used last
}

var (
	errNoTLS      = errors.New("the server offers no STARTTLS, and SMTP_URL requires it")
	errUnsafe     = errors.New("the server offers no TLS, and a password is not sent without")
	errMechanisms = errors.New("the server offers no way to authenticate that is known here (SCRAM-SHA-256, PLAIN, LOGIN)")
	errNoUTF8     = errors.New("the mail server takes no address that is not ASCII before the @ (SMTPUTF8)")
	errTooSlow    = errors.New("the mail server took too long")
)

// open connects, greets, begins TLS and authenticates, all of it before ctx ends.
func (s *server) open(ctx context.Context) (_ *session, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return nil, s.failed(ctx, stepConnect, err)
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	defer bind(ctx, conn)()
	wire := conn
	if s.implicit {
		secure := tls.Client(conn, s.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, s.failed(ctx, stepTLS, err)
		}
		wire = secure
	}
	client, err := smtp.NewClient(wire, s.host)
	if err != nil {
		return nil, s.failed(ctx, stepGreet, err)
	}
	name, _ := os.Hostname()
	if err := client.Hello(cmp.Or(s.helo, name, "localhost")); err != nil {
		return nil, s.failed(ctx, stepGreet, err)
	}
	if err := s.secure(client); err != nil {
		return nil, s.failed(ctx, stepTLS, err)
	}
	if err := s.authenticate(client); err != nil {
		return nil, s.failed(ctx, stepAuth, err)
	}
	return &session{server: s, conn: conn, client: client}, nil
}

func (s *server) secure(client *smtp.Client) error {
	if s.implicit || s.starttls == none {
		return nil
	}
	if offered, _ := client.Extension("STARTTLS"); offered {
		return client.StartTLS(s.tls)
	}
	if s.starttls == required {
		return errNoTLS
	}
	return nil
}

func (s *server) authenticate(client *smtp.Client) error {
	if s.user == "" {
		return nil
	}
	if _, encrypted := client.TLSConnectionState(); !encrypted && !loopback(s.host) {
		return errUnsafe
	}
	_, offered := client.Extension("AUTH")
	mechanisms := strings.Fields(strings.ToUpper(offered))
	switch {
	case slices.Contains(mechanisms, "SCRAM-SHA-256"):
		return client.Auth(smtp.ScramSHA256Auth(s.user, s.password))
	case slices.Contains(mechanisms, "PLAIN"):
		return client.Auth(smtp.PlainAuth("", s.user, s.password, s.host, true)) // without TLS on this machine only, see above
	case slices.Contains(mechanisms, "LOGIN"):
		return client.Auth(smtp.LoginAuth(s.user, s.password, s.host, true))
	}
	return errMechanisms
}

// send sends a mail, before ctx ends. nil says that the server has accepted it. Behind a *failure that is lost the session can't be used again.
func (c *session) send(ctx context.Context, l *letter) error {
	defer bind(ctx, c.conn)()
	if offered, _ := c.client.Extension("SMTPUTF8"); l.utf8 && !offered {
		return &failure{step: stepRecipient, err: errNoUTF8, final: true}
	}
	c.client.SkipSMTPUTF8(!l.utf8)
	if err := c.client.Mail(path(l.from)); err != nil {
		return c.server.failed(ctx, stepSender, err)
	}
	if err := c.client.Rcpt(path(l.to)); err != nil {
		return c.server.failed(ctx, stepRecipient, err)
	}
	w, err := c.client.Data()
	if err != nil {
		return c.server.failed(ctx, stepData, err)
	}
	if _, err := w.Write(l.data); err != nil {
		return c.server.failed(ctx, stepContent, err)
	}
	if err := w.Close(); err != nil {
		return c.server.failed(ctx, stepAnswer, err)
	}
	c.mails++
	return nil
}

// ready tells whether a session that was idle can still be used.
func (c *session) ready(ctx context.Context) bool {
	defer bind(ctx, c.conn)()
	return c.client.Reset() == nil
}

// quit takes leave, and doesn't wait long for the answer.
func (c *session) quit() {
	_ = c.conn.SetDeadline(time.Now().Add(quitLimit))
	_ = c.client.Quit()
	_ = c.conn.Close()
}

// bind has whatever waits on conn give up when ctx ends, until release is called.
func bind(ctx context.Context, conn net.Conn) (release func()) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}

// failed makes a *failure of what a step ended with: the server's answer, or that there was none.
func (s *server) failed(ctx context.Context, at step, err error) *failure {
	f := &failure{step: at, err: err}
	if answer, ok := errors.AsType[*textproto.Error](err); ok {
		f.code, f.text = answer.Code, answer.Msg
		if s.hide != nil {
			f.text = s.hide.Replace(f.text)
		}
		f.text = shorten(f.text)
		f.err = nil // its text is not bounded
		return f
	}
	if ctx.Err() != nil {
		f.err = fmt.Errorf("%w (%v)", context.Cause(ctx), err)
	}
	return f
}
