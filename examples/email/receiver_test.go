package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// receiver is a mail server whose answers a test decides.
type receiver struct {
	addr   string
	answer func(step, arg string) error // nil: 250. Steps: EHLO, AUTH, MAIL, RCPT, DATA (before the mail is read), END (behind it), SAID (it is kept)
	greet  func(net.Conn) bool          // false: it took care of the connection
	secure *tls.Config                  // of a server that speaks TLS from the first byte
	stop   chan struct{}                // closed when the test ends

	mu       sync.Mutex
	mails    []received
	sessions int
	users    []string
}

// received is a mail that was answered with 250, or would have been.
type received struct {
	from, to string
	utf8     bool
	data     []byte
}

var (
	errHang = errors.New("it never answers")
	errCut  = errors.New("it cuts the connection")
	errLate = errors.New("it keeps the mail and cuts the connection before it says so")
)

func says(code int, a, b, c int, text string) error {
	return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{a, b, c}, Message: text}
}

// at is an answer of one step: an *smtp.SMTPError, or one of the errors above.
func at(step string, err error) func(string, string) error {
	return func(s, _ string) error {
		if s == step {
			return err
		}
		return nil
	}
}

// receive starts a receiver.
func receive(t testing.TB, answer func(step, arg string) error, opts ...func(*smtp.Server, *receiver)) *receiver {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{addr: l.Addr().String(), answer: answer, stop: make(chan struct{})}
	s := smtp.NewServer(smtp.BackendFunc(r.session))
	s.Domain, s.EnableSMTPUTF8, s.AllowInsecureAuth = "localhost", true, true
	s.ErrorLog = log.New(io.Discard, "", 0)
	for _, o := range opts {
		o(s, r)
	}
	var done sync.WaitGroup
	done.Go(func() { _ = s.Serve(greeting{l, r}) })
	t.Cleanup(func() { close(r.stop); _, _ = s.Close(), l.Close(); done.Wait() })
	return r
}

// greeting has a test handle connections before the server greets.
type greeting struct {
	net.Listener
	r *receiver
}

func (g greeting) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		switch {
		case err != nil:
			return nil, err
		case g.r.secure != nil:
			return tls.Server(c, g.r.secure), nil
		case g.r.greet == nil || g.r.greet(c):
			return c, nil
		}
	}
}

func (r *receiver) session(c *smtp.Conn) (smtp.Session, error) {
	r.mu.Lock()
	r.sessions++
	r.mu.Unlock()
	if err := r.do(c, "EHLO", c.Hostname()); err != nil {
		return nil, err
	}
	return &receiving{r: r, c: c}, nil
}

// do is the test's answer.
func (r *receiver) do(c *smtp.Conn, step, arg string) error {
	if r.answer == nil {
		return nil
	}
	r.mu.Lock()
	answer := r.answer
	r.mu.Unlock()
	err := answer(step, arg)
	switch err {
	case errHang:
		<-r.stop
	case errCut:
		_ = c.Conn().Close()
	}
	return err
}

// now changes the answers.
func (r *receiver) now(answer func(step, arg string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *receiver) got() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.mails...)
}

// wait waits for n mails.
func (r *receiver) wait(t *testing.T, n int) []received {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if got := r.got(); len(got) >= n {
			return got
		}
		if time.Now().After(end) {
			t.Fatalf("%d mails, want %d", len(r.got()), n)
		}
	}
}

// receiving is one connection to a receiver.
type receiving struct {
	r    *receiver
	c    *smtp.Conn
	mail received
}

func (s *receiving) Reset()                   { s.mail = received{} }
func (s *receiving) Logout() error            { return nil }
func (s *receiving) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *receiving) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if err := s.r.do(s.c, "AUTH", user); err != nil {
			return err
		}
		if password != "s3cret/p@ss" {
			return smtp.ErrAuthFailed
		}
		s.r.mu.Lock()
		defer s.r.mu.Unlock()
		s.r.users = append(s.r.users, user)
		return nil
	}), nil
}

func (s *receiving) Mail(from string, o *smtp.MailOptions) error {
	s.mail.from, s.mail.utf8 = from, o.UTF8
	return s.r.do(s.c, "MAIL", from)
}

func (s *receiving) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.mail.to = to
	return s.r.do(s.c, "RCPT", to)
}

func (s *receiving) Data(r io.Reader) error {
	if err := s.r.do(s.c, "DATA", s.mail.to); err != nil {
		return err
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.mail.data = data
	err = s.r.do(s.c, "END", s.mail.to)
	if err == nil || err == errLate {
		s.r.mu.Lock()
		s.r.mails = append(s.r.mails, s.mail)
		s.r.mu.Unlock()
	}
	if err == nil {
		err = s.r.do(s.c, "SAID", s.mail.to)
	}
	if err == errLate {
		_ = s.c.Conn().Close()
	}
	return err
}

// reading is a mail, read with other libraries than the one that wrote it.
type reading struct {
	header     netmail.Header
	subject    string
	to         *netmail.Address
	text, html string
}

func read(t *testing.T, data []byte) reading {
	t.Helper()
	m, err := netmail.ReadMessage(bytes.NewReader(data))
	must(t, err)
	r := reading{header: m.Header}
	r.subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	must(t, err)
	r.to, err = netmail.ParseAddress(m.Header.Get("To"))
	must(t, err)
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	must(t, err)
	if kind != "multipart/alternative" {
		t.Fatalf("it is %s", kind)
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	for {
		p, err := parts.NextRawPart()
		if err == io.EOF {
			return r
		}
		must(t, err)
		if p.Header.Get("Content-Transfer-Encoding") != "quoted-printable" {
			t.Fatalf("a part is %q", p.Header)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(p))
		must(t, err)
		switch kind, params, err := mime.ParseMediaType(p.Header.Get("Content-Type")); {
		case err != nil || strings.ToLower(params["charset"]) != "utf-8":
			t.Fatalf("a part is %q: %v", p.Header, err)
		case kind == "text/plain":
			r.text = strings.ReplaceAll(string(body), "\r\n", "\n")
		case kind == "text/html":
			r.html = string(body)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// authority is a private CA.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its certificate, as PEM
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(t.TempDir(), "ca.pem")}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a private CA"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	var der []byte
	a.key, der = sign(t, template, template, nil)
	var err error
	a.cert, err = x509.ParseCertificate(der)
	must(t, err)
	must(t, os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return a
}

// config is that of a server with a certificate for a name or an address.
func (a *authority) config(t testing.TB, name string, until time.Time) *tls.Config {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until, DNSNames: []string{name}}
	if ip := net.ParseIP(name); ip != nil {
		template.DNSNames, template.IPAddresses = nil, []net.IP{ip}
	}
	key, der := sign(t, template, a.cert, a.key)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

func sign(t testing.TB, template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	must(t, err)
	return key, der
}
