package worker

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// Connection says how to reach the server. The variables are those of the nats command, without a prefix.
type Connection struct {
	URL         string `env:"NATS_URL" envDefault:"nats://127.0.0.1:4222" secret:"url" usage:"servers, comma-separated" accepts:"nats://host:port, comma-separated; also tls:// and ws://"`
	Creds       string `env:"NATS_CREDS" usage:"path of a credentials file" accepts:"the path of a readable file"`
	Nkey        string `env:"NATS_NKEY" usage:"path of an nkey seed file" accepts:"the path of a readable file"`
	User        string `env:"NATS_USER" usage:"user name" accepts:"a name"`
	Password    string `env:"NATS_PASSWORD" secret:"all" usage:"password (or NATS_PASSWORD_FILE)" accepts:"a password"`
	Token       string `env:"NATS_TOKEN" secret:"all" usage:"token (or NATS_TOKEN_FILE)" accepts:"a token"`
	Cert        string `env:"NATS_CERT" usage:"path of the client certificate" accepts:"the path of a readable file"`
	Key         string `env:"NATS_KEY" usage:"path of the client certificate's key" accepts:"the path of a readable file"`
	CA          string `env:"NATS_CA" usage:"path of the certificate authority" accepts:"the path of a readable file"`
	Domain      string `env:"NATS_JS_DOMAIN" usage:"JetStream domain" accepts:"a domain"`
	APIPrefix   string `env:"NATS_JS_API_PREFIX" usage:"subject prefix of the JetStream API in an importing account" accepts:"a subject prefix such as $JS.hub.API"`
	InboxPrefix string `env:"NATS_INBOX_PREFIX" shown:"_INBOX_<consumer>" usage:"subject prefix of the inboxes" accepts:"a subject prefix without wildcards"`

	Name   string        `env:"-"` // of the client, as the server lists it; the consumer's name by default
	Wait   time.Duration `env:"-"` // how long Connect tries; 1m by default
	Logger *zap.Logger   `env:"-"` // for what happens to the connection; none by default
}

func (c Connection) problems() []string {
	var out []string
	bad := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for s := range strings.SplitSeq(c.URL, ",") {
		if s = strings.TrimSpace(s); !strings.Contains(s, "://") {
			s = "nats://" + s // as nats.go takes it
		}
		if u, err := url.Parse(s); err != nil || u.Host == "" {
			bad("NATS_URL is %q: it takes nats://host:port, comma-separated", redactURL(c.URL))
			break
		}
	}
	for name, path := range map[string]string{"NATS_CREDS": c.Creds, "NATS_NKEY": c.Nkey, "NATS_CERT": c.Cert, "NATS_KEY": c.Key, "NATS_CA": c.CA} {
		if path == "" {
			continue
		}
		if _, err := os.ReadFile(path); err != nil { // a folder can be opened
			bad("%s is %q: it takes the path of a readable file: %v", name, path, err)
		}
	}
	if (c.Cert == "") != (c.Key == "") {
		bad("NATS_CERT and NATS_KEY go together: one of them is not set")
	}
	if c.Domain != "" && c.APIPrefix != "" {
		bad("NATS_JS_DOMAIN and NATS_JS_API_PREFIX exclude each other: set one of them")
	}
	if c.Domain != "" && !validName(c.Domain) {
		bad("NATS_JS_DOMAIN is %q: it takes the name of a domain", c.Domain)
	}
	for name, s := range map[string]string{"NATS_JS_API_PREFIX": strings.TrimSuffix(c.APIPrefix, "."), "NATS_INBOX_PREFIX": c.InboxPrefix} {
		if s != "" && (!validSubject(s) || strings.ContainsAny(s, "*>")) {
			bad("%s is %q: it takes a subject prefix without wildcards", name, s)
		}
	}
	return out
}

// apiPrefix is what stands before CONSUMER.INFO and the like, with its dot.
func (c Connection) apiPrefix() string {
	switch {
	case c.APIPrefix != "":
		return strings.TrimSuffix(c.APIPrefix, ".") + "."
	case c.Domain != "":
		return "$JS." + c.Domain + ".API."
	}
	return defaultAPI
}

const defaultAPI = "$JS.API." // what the subjects of the JetStream API begin with

// Connect connects to the server and waits until it is there: until ctx ends or c.Wait has passed, then the error is an
// *UnavailableError with the last answer. The connection never gives up by itself later on (the defaults of nats.go do: after 60
// reconnects, and after two equal authorization errors), pings every 10 s and comes back within 0.1 s of a restarted server
// at first, 0.75 s at the most. The caller closes it.
func Connect(ctx context.Context, c Connection) (*nats.Conn, error) {
	if err := env.ParseWithOptions(&c, env.Options{Environment: map[string]string{}, SetDefaultsForZeroValuesOnly: true}); err != nil {
		return nil, &ConfigError{Problems: []string{err.Error()}}
	}
	if problems := c.problems(); len(problems) > 0 {
		return nil, &ConfigError{Problems: problems}
	}
	opts, err := c.options()
	if err != nil {
		return nil, &ConfigError{Problems: []string{redact(err.Error())}}
	}
	log := orNop(c.Logger)
	wait := c.Wait
	if wait <= 0 {
		wait = time.Minute
	}
	began := time.Now()
	limit := time.NewTimer(wait)
	defer limit.Stop()
	for said := ""; ; {
		dialed := dial(c.URL, opts)
		select {
		case d := <-dialed:
			if d.err == nil {
				return d.nc, nil
			}
			err = redacted{d.err}
		case <-ctx.Done():
			closeLate(dialed)
			return nil, context.Cause(ctx)
		case <-limit.C:
			closeLate(dialed)
			return nil, &UnavailableError{What: fmt.Sprintf("the server at %q", redactURL(c.URL)), Waited: time.Since(began), Err: cmp.Or(err, errSilent)}
		}
		if err.Error() != said {
			said = err.Error()
			log.Warn("waiting for the server", zap.String("url", redactURL(c.URL)), zap.Duration("limit", wait), zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-limit.C:
			return nil, &UnavailableError{What: fmt.Sprintf("the server at %q", redactURL(c.URL)), Waited: time.Since(began), Err: err}
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// dialed is what came of a try to connect.
type dialed struct {
	nc  *nats.Conn
	err error
}

// dial connects beside: nats.go waits two seconds for each server that says nothing, and for all of them can't be interrupted.
func dial(url string, opts []nats.Option) <-chan dialed {
	done := make(chan dialed, 1)
	go func() {
		nc, err := nats.Connect(url, opts...)
		done <- dialed{nc, err}
	}()
	return done
}

// closeLate closes a connection that nobody waits for any more.
func closeLate(done <-chan dialed) {
	go func() {
		if d := <-done; d.err == nil {
			d.nc.Close()
		}
	}()
}

var errSilent = errors.New("no server has answered yet")

func (c Connection) options() ([]nats.Option, error) {
	log := orNop(c.Logger)
	said := &repeats{}
	opts := []nats.Option{
		nats.Name(c.Name),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(reconnectDelay),
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("disconnected", zap.String("error", redact(err.Error())))
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Warn("reconnected", zap.String("server", nc.ConnectedServerName()), zap.Uint64("times", nc.Stats().Reconnects))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if text := redact(err.Error()); said.first(text, time.Now()) {
				log.Warn("the server reports", zap.String("error", text))
			}
		}),
		// A server in lame duck mode asks its clients to go. What is on the way is sent again on the new connection.
		nats.LameDuckModeHandler(func(nc *nats.Conn) {
			log.Info("the server is in lame duck mode")
			if len(nc.Servers()) > 1 {
				_ = nc.ForceReconnect()
			}
		}),
	}
	if c.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(c.InboxPrefix))
	}
	if c.Creds != "" {
		opts = append(opts, nats.UserCredentials(c.Creds))
	}
	if c.Nkey != "" {
		o, err := nats.NkeyOptionFromSeed(c.Nkey)
		if err != nil {
			return nil, fmt.Errorf("NATS_NKEY: %w", err)
		}
		opts = append(opts, o)
	}
	if c.User != "" || c.Password != "" {
		opts = append(opts, nats.UserInfo(c.User, c.Password))
	}
	if c.Token != "" {
		opts = append(opts, nats.Token(c.Token))
	}
	if c.Cert != "" {
		opts = append(opts, nats.ClientCert(c.Cert, c.Key))
	}
	if c.CA != "" {
		if pem, err := os.ReadFile(c.CA); err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("NATS_CA is %q: there is no certificate in PEM in it", c.CA)
		}
		opts = append(opts, nats.RootCAs(c.CA))
	}
	return opts, nil
}

// reconnectDelay is short at first: what is settled but unconfirmed should reach a restarted server before it hands it to another.
func reconnectDelay(attempts int) time.Duration {
	d := min(25*time.Millisecond+time.Duration(attempts)*10*time.Millisecond, 500*time.Millisecond)
	return d + rand.N(d/2)
}

// JetStream makes a client of the connection's domain, or of the API prefix of an importing account.
func (c Connection) JetStream(nc *nats.Conn) (jetstream.JetStream, error) {
	switch {
	case nc == nil:
		return nil, errors.New(nilConnection)
	case c.APIPrefix != "":
		return jetstream.NewWithAPIPrefix(nc, strings.TrimSuffix(c.APIPrefix, "."))
	case c.Domain != "":
		return jetstream.NewWithDomain(nc, c.Domain)
	}
	return jetstream.New(nc)
}
