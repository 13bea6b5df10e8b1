package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/worker"
	"golang.org/x/time/rate"
)

// settings are the variables of this service, beside those of the worker.
type settings struct {
	server *server          // SMTP_URL or SMTP_URL_FILE, SMTP_CA; nil: the receiver of its own
	from   *netmail.Address // SMTP_FROM
	gate   worker.Gate      // EMAIL_RATE; nil: no limit
	pause  time.Duration    // EMAIL_PAUSE: how long it waits when the mail server is out
}

const (
	defaultFrom  = "Shop <shop@example.com>" // for the receiver of its own only
	defaultRate  = "10/s"
	defaultPause = "15s"

	required      = "required"
	opportunistic = "opportunistic"
	none          = "none"
)

// configError is a setting that is wrong: starting again does not help.
type configError struct{ err error }

func (e *configError) Error() string { return e.err.Error() }
func (e *configError) Unwrap() error { return e.err }
func (e *configError) ExitCode() int { return shutdown.ExitConfig }

// fromEnv reads the variables. Its errors name all that is wrong, and never show a password.
func fromEnv() (settings, error) {
	var s settings
	var problems []error
	address, err := secret("SMTP_URL")
	problems = append(problems, err)
	from := os.Getenv("SMTP_FROM")
	if address == "" {
		from = cmp.Or(from, defaultFrom)
	} else if s.server, err = parseServer(address, os.Getenv("SMTP_CA")); err != nil {
		problems = append(problems, err)
	}
	var utf8 bool
	if s.from, utf8, err = parseAddress(from); err != nil {
		problems = append(problems, fmt.Errorf("SMTP_FROM is %q: it takes the address that mails come from, such as Shop <shop@example.com>: %w", from, err))
	} else if utf8 {
		problems = append(problems, fmt.Errorf("SMTP_FROM is %q: what is before the @ takes ASCII, or few could answer", from))
	}
	perSecond, err := parseRate(cmp.Or(os.Getenv("EMAIL_RATE"), defaultRate))
	problems = append(problems, err)
	if err == nil {
		s.gate, err = gate(perSecond)
		problems = append(problems, err)
	}
	pause := cmp.Or(os.Getenv("EMAIL_PAUSE"), defaultPause)
	if s.pause, err = time.ParseDuration(pause); err != nil || s.pause < 100*time.Millisecond {
		problems = append(problems, fmt.Errorf("EMAIL_PAUSE is %q: it takes a duration of at least 100ms, such as %s", pause, defaultPause))
	}
	if err := errors.Join(problems...); err != nil {
		return s, &configError{err}
	}
	return s, nil
}

// secret reads a variable, or the file that the variable with _FILE behind its name names.
func secret(name string) (string, error) {
	file := os.Getenv(name + "_FILE")
	if file == "" {
		return os.Getenv(name), nil
	}
	if os.Getenv(name) != "" {
		return "", fmt.Errorf("%s and %s_FILE are both set: it takes one of them", name, name)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s_FILE: %w", name, err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", fmt.Errorf("%s_FILE: %s is empty", name, file)
	}
	return text, nil
}

var errAddress = errors.New("SMTP_URL (not shown, since it may hold a password): it takes smtp://user:password@host:587?starttls=required, " +
	"or smtps://user:password@host:465, with %40 for an @ in the user or the password, and so on")

// parseServer reads the address of a mail server. ca is a file of certificates that are trusted in place of the system's; "" means the system's.
func parseServer(address, ca string) (*server, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Path != "" && u.Path != "/" || u.Fragment != "" {
		return nil, errAddress // not with err, which shows the whole address
	}
	s := &server{host: u.Hostname(), implicit: u.Scheme == "smtps", starttls: required, user: u.User.Username()}
	s.password, _ = u.User.Password()
	if (s.user == "") != (s.password == "") {
		return nil, fmt.Errorf("%w; it has a user or a password, and not both", errAddress)
	}
	port := cmp.Or(u.Port(), map[bool]string{false: "587", true: "465"}[s.implicit])
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return nil, errAddress
	}
	s.addr = net.JoinHostPort(s.host, port)
	for name, values := range u.Query() {
		switch value := values[len(values)-1]; {
		case name == "starttls" && !s.implicit && (value == required || value == opportunistic || value == none):
			s.starttls = value
		case name == "helo" && value != "" && !strings.ContainsAny(value, " \r\n"):
			s.helo = value
		default:
			return nil, fmt.Errorf("SMTP_URL has ?%s=…: smtp:// takes starttls=required, opportunistic or none; smtp:// and smtps:// take helo=the name of this machine", name)
		}
	}
	if s.user != "" && !s.implicit && s.starttls == none && !loopback(s.host) {
		return nil, errors.New("SMTP_URL has a password and starttls=none: a password is sent over TLS only, or to this machine")
	}
	s.tls = &tls.Config{ServerName: s.host, MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("SMTP_CA: %w", err)
		}
		s.tls.RootCAs = x509.NewCertPool()
		if !s.tls.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("SMTP_CA: %s holds no certificate in PEM", ca)
		}
	}
	if s.password != "" {
		s.hide = hiding(s.user, s.password)
	}
	return s, nil
}

// hiding takes a password out of what a server says, in the forms in which it was sent: some repeat the line that they did not like.
func hiding(user, password string) *strings.Replacer {
	enc := base64.StdEncoding.EncodeToString
	return strings.NewReplacer(enc([]byte("\x00"+user+"\x00"+password)), "xxxxx", enc([]byte(password)), "xxxxx", password, "xxxxx")
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// parseRate reads 10/s, 600/m or 5000/h; off means no limit.
func parseRate(text string) (rate.Limit, error) {
	if text == "off" {
		return rate.Inf, nil
	}
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(number, 64)
	per := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	if err != nil || per == 0 || !(n > 0 && n <= 1e6) {
		return 0, fmt.Errorf("EMAIL_RATE is %q: it takes mails a second, a minute or an hour, such as %s, 600/m or 5000/h, or off", text, defaultRate)
	}
	return rate.Limit(n / per), nil
}
