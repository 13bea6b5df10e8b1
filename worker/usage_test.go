package worker

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/testutil"
)

// -h shows every variable with its present value or its default, and no secret.
func TestUsage(t *testing.T) {
	var out bytes.Buffer
	usage(&out, "EMAIL", map[string]string{"EMAIL_STREAM": "EVENTS", "EMAIL_CONCURRENCY": "3", "NATS_PASSWORD": "hunter2", "NATS_TOKEN": "t0ken",
		"NATS_URL": "nats://bob:s3cret/x@host:4222,nats://s3cret2@other:4222", "NATS_USER": "bob", "EMAIL_FILTER": "a\nb"})
	text := out.String()
	row := func(name string) string {
		for line := range strings.Lines(text) {
			if words := strings.Fields(line); len(words) > 0 && words[0] == name {
				return line
			}
		}
		t.Errorf("%s is not listed", name)
		return ""
	}
	for f := range fields(Config{}) {
		if !strings.Contains(row("EMAIL_"+f.Tag.Get("env")), f.Tag.Get("usage")) {
			t.Errorf("%s is shown without its meaning", f.Name)
		}
	}
	for f := range fields(Connection{}) {
		if !strings.Contains(row(f.Tag.Get("env")), f.Tag.Get("usage")) {
			t.Errorf("%s is shown without its meaning", f.Name)
		}
	}
	for name, want := range map[string]string{
		"EMAIL_STREAM": `"EVENTS"`, "EMAIL_CONCURRENCY": `"3"`, "EMAIL_CONSUMER": "(required)", "EMAIL_ACK_WAIT": "30s (default)", "EMAIL_PREFETCH": "0 = automatic (default)",
		"EMAIL_DEAD_LETTER": "<STREAM>_DLQ (default)", "EMAIL_START": "all (default)", "EMAIL_FILTER": `"a\nb"`,
		"NATS_PASSWORD": "(set, not shown)", "NATS_TOKEN": "(set, not shown)", "NATS_USER": `"bob"`, "NATS_URL": "host:4222", "NATS_CREDS": " - ",
	} {
		if line := row(name); !strings.Contains(line, want) {
			t.Errorf("%s is shown as %q, want %q", name, line, want)
		}
	}
	for _, secret := range []string{"hunter2", "t0ken", "s3cret"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is shown:\n%s", secret, text)
		}
	}
	for _, code := range []string{"69", "75", "78", "128+n"} {
		if !strings.Contains(text, code) {
			t.Errorf("exit code %s is not told", code)
		}
	}
}

// What Main exits with, and says, before it has a connection.
func TestMainRefuses(t *testing.T) {
	valid := map[string]string{"WORKER_STREAM": "S", "WORKER_CONSUMER": "C", "WORKER_STARTUP_TIMEOUT": "300ms", "WORKER_LOG_LEVEL": "error"}
	with := func(pairs ...string) map[string]string {
		e := map[string]string{}
		maps.Copy(e, valid)
		for i := 0; i < len(pairs); i += 2 {
			e[pairs[i]] = pairs[i+1]
		}
		return e
	}
	down := testutil.Server(t)
	down.Stop()
	tests := []struct {
		name           string
		args           []string
		env            map[string]string
		handler        ackfloor.Handler
		code           int
		stdout, stderr string
	}{
		{"help", []string{"-h"}, nil, testutil.Succeed(), 0, "WORKER_STREAM", ""},
		{"help with two dashes", []string{"--help"}, nil, testutil.Succeed(), 0, "NATS_URL", ""},
		{"help shows no secret", []string{"-h"}, with("NATS_PASSWORD", "hunter2"), testutil.Succeed(), 0, "not shown", ""},
		{"a flag that is none", []string{"-concurrency=4"}, valid, testutil.Succeed(), 78, "WORKER_STREAM", "-concurrency"},
		{"a stray argument", []string{"start"}, valid, testutil.Succeed(), 78, "", `"start"`},
		{"nothing set", nil, nil, testutil.Succeed(), 78, "", "WORKER_STREAM"},
		{"a wrong value", nil, with("WORKER_BIND", "hunter3"), testutil.Succeed(), 78, "", `WORKER_BIND is "hunter3"`},
		{"a wrong address", nil, with("NATS_URL", "nats://bob:hunter2@host:port"), testutil.Succeed(), 78, "", "NATS_URL"},
		{"no handler", nil, valid, nil, 78, "", "the handler is nil"},
		{"HandlerFunc(nil)", nil, valid, ackfloor.HandlerFunc(nil), 78, "", "the handler is nil"},
		{"no server", nil, with("NATS_URL", strings.Replace(down.URL(), "//", "//bob:hunter2@", 1)), testutil.Succeed(), 69, "", "was not available within"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			var stdout, stderr bytes.Buffer
			began := time.Now()
			if code := run(single(tt.handler), tt.args, &stdout, &stderr, nil); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if d := time.Since(began); d > 3*time.Second {
				t.Errorf("it took %v", d)
			}
			if !strings.Contains(stdout.String(), tt.stdout) || tt.stdout == "" && stdout.Len() > 0 {
				t.Errorf("standard output: %s", &stdout)
			}
			if !strings.Contains(stderr.String(), tt.stderr) || tt.stderr == "" && stderr.Len() > 0 {
				t.Errorf("standard error: %s", &stderr)
			}
			if strings.Contains(stdout.String()+stderr.String(), "hunter2") {
				t.Errorf("a secret is shown:\n%s%s", &stdout, &stderr)
			}
		})
	}
}
