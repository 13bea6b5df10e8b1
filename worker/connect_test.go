package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// connect is Connect, closed at the end of the test.
func connect(t *testing.T, c Connection) *nats.Conn {
	t.Helper()
	nc, err := Connect(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// The connection never gives up by itself, and listens on its own inboxes only.
func TestConnectOptions(t *testing.T) {
	s := testutil.Server(t)
	cfg, err := Config{Stream: "S", Consumer: "mine", Connection: Connection{URL: s.URL()}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	o := connect(t, cfg.Connection).Opts
	if o.MaxReconnect != -1 || !o.AllowReconnect || !o.IgnoreAuthErrorAbort || o.CustomReconnectDelayCB == nil || o.PingInterval > 20*time.Second || o.Name != "mine" || o.InboxPrefix != "_INBOX_mine" {
		t.Errorf("options: %+v", o)
	}
	for attempts, most := range map[int]time.Duration{0: 60 * time.Millisecond, 5: 120 * time.Millisecond, 1000: 750 * time.Millisecond} {
		for range 100 {
			if d := reconnectDelay(attempts); d <= 0 || d > most {
				t.Fatalf("after %d attempts it waits %v", attempts, d)
			}
		}
	}
}

// A server that comes up late is waited for, with one line.
func TestConnectWaitsForServer(t *testing.T) {
	s := testutil.Server(t)
	s.Stop()
	core, logs := observer.New(zapcore.DebugLevel)
	back := time.AfterFunc(500*time.Millisecond, s.Start)
	defer back.Stop()
	began := time.Now()
	connect(t, Connection{URL: s.URL(), Wait: 10 * time.Second, Logger: zap.New(core)})
	if d := time.Since(began); d < 500*time.Millisecond || d > 3*time.Second {
		t.Errorf("it took %v", d)
	}
	if n := logs.FilterMessage("waiting for the server").Len(); n != 1 {
		t.Errorf("%d lines say that it waits", n)
	}
}

// What Connect says when it gives up names the server, the reason and no secret: neither in the error nor in the log.
func TestConnectGivesUp(t *testing.T) {
	down := testutil.Server(t)
	down.Stop()
	locked := testutil.Server(t, func(o *server.Options) { o.Username, o.Password = "bob", "right" })
	with := func(url, userinfo string) string { return strings.Replace(url, "//", "//"+userinfo+"@", 1) }
	tests := []struct {
		name   string
		c      Connection
		reason string
	}{
		{"wrong port", Connection{URL: with(down.URL(), "bob:hunter2")}, "no servers available"},
		{"token in the address", Connection{URL: with(down.URL(), "hunter2")}, "no servers available"},
		{"slash in the password", Connection{URL: with(down.URL(), "bob:1/hunter2")}, ""},
		{"token without a scheme", Connection{URL: "hunter2@127.0.0.77"}, ""},
		{"wrong password in the address", Connection{URL: with(locked.URL(), "bob:hunter2")}, "Authorization Violation"},
		{"wrong password", Connection{URL: locked.URL(), User: "bob", Password: "hunter2"}, "Authorization Violation"},
		{"wrong token", Connection{URL: locked.URL(), Token: "hunter2"}, "Authorization Violation"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			core, logs := observer.New(zapcore.DebugLevel)
			tt.c.Wait, tt.c.Logger = 300*time.Millisecond, zap.New(core)
			began := time.Now()
			_, err := Connect(t.Context(), tt.c)
			gone, ok := errors.AsType[*UnavailableError](err)
			if !ok || gone.ExitCode() != 69 || !strings.Contains(err.Error(), tt.reason) || !strings.Contains(gone.What, "127.0.0.") {
				t.Fatalf("Connect returned %T: %v", err, err)
			}
			if d := time.Since(began); d < 300*time.Millisecond || d > 3*time.Second {
				t.Errorf("it took %v", d)
			}
			var text strings.Builder
			text.WriteString(err.Error())
			for _, e := range logs.All() {
				text.WriteString(fmt.Sprint("\n", e.Message, e.ContextMap()))
			}
			if strings.Contains(text.String(), "hunter2") {
				t.Errorf("a secret is shown:\n%s", text.String())
			}
		})
	}
}

// A stop while Connect waits ends it, also where something takes connections and says nothing.
func TestConnectIsInterrupted(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	down := testutil.Server(t)
	down.Stop()
	for name, url := range map[string]string{"nobody": down.URL(), "a silent server": "nats://" + silent.Addr().String()} {
		ctx, cancel := context.WithCancel(t.Context())
		stop := time.AfterFunc(200*time.Millisecond, cancel)
		began := time.Now()
		_, err := Connect(ctx, Connection{URL: url, Wait: time.Minute})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Connect returned %v", name, err)
		}
		if d := time.Since(began); d > 3*time.Second {
			t.Errorf("%s: it took %v", name, d)
		}
		stop.Stop()
		cancel()
	}
}

// Secrets may come from files; the file's name may be shown, its content never.
func TestSecretsFromFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c, err := fromEnv("", environ("NATS_PASSWORD_FILE", file("p", "hunter2\r\n"), "NATS_TOKEN_FILE", file("t", " t0k en\n\n"), "NATS_URL_FILE", file("u", "nats://a:b@h:1\n"), "NATS_USER", "bob"))
	if err != nil || c.Connection.Password != "hunter2" || c.Connection.Token != " t0k en" || c.Connection.URL != "nats://a:b@h:1" {
		t.Errorf("read %+v, %v", c.Connection, err)
	}
	_, err = fromEnv("", environ("NATS_PASSWORD", "hunter2", "NATS_PASSWORD_FILE", file("p2", "hunter2"), "NATS_TOKEN_FILE", filepath.Join(dir, "missing"),
		"NATS_URL_FILE", file("u2", "nats://bob:hunter2@h:port"), "WORKER_PREFETCH", "x"))
	problems := configProblems(t, err)
	mentioned(t, problems, "NATS_PASSWORD", "NATS_PASSWORD_FILE", "both")
	mentioned(t, problems, "NATS_TOKEN_FILE", filepath.Join(dir, "missing"))
	mentioned(t, problems, "NATS_URL")
	mentioned(t, problems, "WORKER_PREFETCH")
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a secret is shown: %v", err)
	}
	if _, err = fromEnv("", environ("NATS_USER_FILE", file("n", "bob"))); err != nil {
		t.Errorf("NATS_USER is no secret, its file is not read: %v", err)
	}
}

// Credentials that can't be read are faults of the configuration, told before anything is dialled, without their content.
func TestUnreadableCredentials(t *testing.T) {
	seed := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(seed, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Connect(t.Context(), Connection{URL: "nats://127.0.0.1:1", Nkey: seed, Wait: time.Minute})
	mentioned(t, configProblems(t, err), "NATS_NKEY")
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a secret is shown: %v", err)
	}
	_, err = Connect(t.Context(), Connection{URL: "nats://127.0.0.1:1", Creds: "/nowhere", Wait: time.Minute})
	mentioned(t, configProblems(t, err), "NATS_CREDS", "/nowhere")
}

// Where the JetStream API is, in this account, in a domain, and imported.
func TestAPIPrefix(t *testing.T) {
	for want, c := range map[string]Connection{"$JS.API.": {}, "$JS.hub.API.": {Domain: "hub"}, "js.hub.": {APIPrefix: "js.hub"}, "js.": {APIPrefix: "js."}} {
		if got := newSubjects(Config{Stream: "S", Consumer: "C", Connection: c}).info; got != want+"CONSUMER.INFO.S.C" {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// The connection stays the caller's, whatever becomes of the Runners on it.
func TestRunnersCloseNothing(t *testing.T) {
	s := testutil.Server(t)
	r := newRig(t, s, 3)
	nc := connect(t, Connection{URL: s.URL()})
	for _, name := range []string{"one", "two"} {
		w := r.startOn(nc, testutil.Succeed(), func(c *Config) { c.Consumer = name })
		s.WaitInfo(t, rigStream, name, 5*time.Second, "floor 3", floorAt(3))
		w.ok(w.end())
		if !nc.IsConnected() {
			t.Fatalf("behind Runner %s the connection is %v", name, nc.Status())
		}
	}
	if n := nc.NumSubscriptions(); n > 1 { // the one of its requests
		t.Errorf("%d subscriptions are left", n)
	}
}

func TestWhatTheServerRepeatsIsSaidOnceAMinute(t *testing.T) {
	var r repeats
	now := time.Now()
	said := 0
	for i := range 130 {
		for _, text := range []string{"one", "another"} {
			if r.first(text, now.Add(time.Duration(i)*time.Second)) {
				said++
			}
		}
	}
	if said != 6 {
		t.Errorf("two texts in 130 seconds were said %d times, want 6", said)
	}
}

// Servers that take a connection and say nothing hold up neither a stop nor the limit, however many there are; what comes late is closed.
func TestConnectToSilentServers(t *testing.T) {
	var urls []string
	for range 6 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		t.Cleanup(func() { _ = l.Close() })
		urls = append(urls, "nats://"+l.Addr().String())
	}
	c := Connection{URL: strings.Join(urls, ","), Wait: 300 * time.Millisecond}
	began := time.Now()
	_, err := Connect(t.Context(), c)
	var unavailable *UnavailableError
	if took := time.Since(began); !errors.As(err, &unavailable) || took > time.Second {
		t.Errorf("it returned %v after %v", err, took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began = time.Now()
	c.Wait = time.Minute
	if _, err := Connect(ctx, c); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Second {
		t.Errorf("it returned %v after %v", err, time.Since(began))
	}
}

// A folder is no file of credentials, and text no certificate: that is said at once.
func TestConnectWithFilesOfAnotherKind(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	must(t, os.WriteFile(text, []byte("hello"), 0o600))
	for name, c := range map[string]Connection{"NATS_CREDS": {Creds: t.TempDir()}, "NATS_NKEY": {Nkey: t.TempDir()}, "NATS_CA": {CA: text}} {
		_, err := Connect(t.Context(), c)
		var wrong *ConfigError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
