package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	netmail "net/mail"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/emersion/go-smtp"
)

const (
	largestMail = 10 << 20
	boxTimeout  = time.Minute // for a client that says nothing
)

// outbox is a mail server in this process, for those who have none: it listens on this machine only, and keeps each mail in a file, named after its Message-ID. A
// mail that comes twice is therefore one file. It takes what comes for any address, and delivers nothing.
type outbox struct {
	dir      string
	listener net.Listener
	smtp     *smtp.Server
	say      func(format string, args ...any)
}

func openOutbox(dir string, say func(string, ...any)) (*outbox, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o := &outbox{dir: dir, listener: l, say: say}
	o.smtp = smtp.NewServer(o)
	o.smtp.Domain = "localhost"
	o.smtp.EnableSMTPUTF8 = true
	o.smtp.MaxMessageBytes = largestMail
	o.smtp.MaxRecipients = 10
	o.smtp.ReadTimeout, o.smtp.WriteTimeout = boxTimeout, boxTimeout
	o.smtp.ErrorLog = log.New(io.Discard, "", 0) // connections that break: the client says it
	say("no SMTP_URL: mails are kept in %s, and go nowhere", dir)
	return o, nil
}

// server is how the service talks to it.
func (o *outbox) server() *server {
	return &server{addr: o.listener.Addr().String(), host: "127.0.0.1", starttls: none}
}

// run serves until ctx ends.
func (o *outbox) run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() {
		_ = o.smtp.Close()
		_ = o.listener.Close() // which Close does not know of where Serve has not begun
	})()
	err := o.smtp.Serve(o.listener)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// NewSession implements smtp.Backend.
func (o *outbox) NewSession(*smtp.Conn) (smtp.Session, error) { return inbound{o}, nil }

// inbound is one connection to the outbox.
type inbound struct{ box *outbox }

func (inbound) Reset()                               {}
func (inbound) Logout() error                        { return nil }
func (inbound) Mail(string, *smtp.MailOptions) error { return nil }
func (inbound) Rcpt(string, *smtp.RcptOptions) error { return nil }

func (i inbound) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return i.box.keep(data)
}

var (
	errNoID  = &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "a mail without a Message-ID that could name a file"}
	errNoDir = &smtp.SMTPError{Code: 452, EnhancedCode: smtp.EnhancedCode{4, 3, 1}, Message: "the mail can't be written"}
	fileName = regexp.MustCompile(`^<([A-Za-z0-9_-][A-Za-z0-9._-]{0,200})@[^<>]*>$`)
)

// keep writes a mail into its file: all of it, or none.
func (o *outbox) keep(data []byte) error {
	mail, err := netmail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return errNoID
	}
	name := fileName.FindStringSubmatch(mail.Header.Get("Message-Id"))
	if name == nil {
		return errNoID
	}
	path := filepath.Join(o.dir, name[1]+".eml")
	_, err = os.Stat(path)
	again := err == nil
	if err := replace(path, data); err != nil {
		o.say("outbox: %v", err)
		return errNoDir
	}
	if again {
		o.say("outbox: %s came once more", path)
	} else {
		o.say("outbox: kept %s", path)
	}
	return nil
}

func replace(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".mail-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), path)
}
