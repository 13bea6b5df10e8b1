package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/retry"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go"
)

// configProblems returns what a *ConfigError lists, and fails the test where err is none.
func configProblems(t *testing.T, err error) []string {
	t.Helper()
	e, ok := errors.AsType[*ConfigError](err)
	if !ok {
		t.Fatalf("want a *ConfigError, got %T: %v", err, err)
	}
	if e.ExitCode() != 78 {
		t.Errorf("the exit code is %d", e.ExitCode())
	}
	return e.Problems
}

// mentioned fails the test unless exactly one problem holds all of the words.
func mentioned(t *testing.T, problems []string, words ...string) {
	t.Helper()
	n := 0
	for _, p := range problems {
		ok := true
		for _, w := range words {
			ok = ok && strings.Contains(p, w)
		}
		if ok {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d problems name all of %q, want 1, in:\n%s", n, words, strings.Join(problems, "\n"))
	}
}

// A Config made by hand has the defaults of the environment, and nothing else of the environment.
func TestZeroFieldsGetDefaults(t *testing.T) {
	for _, name := range []string{"STREAM", "START", "CONCURRENCY", "WORKER_CONCURRENCY", "NATS_URL", "NATS_TOKEN"} {
		t.Setenv(name, "hijacked")
	}
	byHand, err := Config{Stream: "S", Consumer: "C"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if p := byHand.problems(); len(p) > 0 {
		t.Errorf("the defaults are refused: %v", p)
	}
	fromEnv, err := fromEnv("", map[string]string{"WORKER_STREAM": "S", "WORKER_CONSUMER": "C"})
	if err != nil {
		t.Fatal(err)
	}
	for f := range fields(byHand) {
		if a, b := valueOf(byHand, f), valueOf(fromEnv, f); a != b {
			t.Errorf("%s is %s by hand, %s from the environment", f.Name, a, b)
		}
	}
	for f := range fields(byHand.Connection) {
		if a, b := valueOf(byHand.Connection, f), valueOf(fromEnv.Connection, f); a != b {
			t.Errorf("Connection.%s is %s by hand, %s from the environment", f.Name, a, b)
		}
	}
	kept, err := Config{Stream: "S", Consumer: "C", Concurrency: 3, AckWait: time.Minute, DeadLetter: off, Connection: Connection{URL: "nats://h:1", Name: "n", Wait: time.Hour}}.withDefaults()
	if err != nil || kept.Concurrency != 3 || kept.AckWait != time.Minute || kept.DeadLetter != off || kept.Connection.URL != "nats://h:1" || kept.Connection.Name != "n" || kept.Connection.Wait != time.Hour {
		t.Errorf("what was set is not kept: %+v, %v", kept, err)
	}
}

// Everything that is wrong with a Config is one error, the handler and the connection with it.
func TestNewReportsEverythingAtOnce(t *testing.T) {
	_, err := New(nil, Config{Stream: "a.b", Filter: []string{"x..y", "e.>", "e.1"}, Start: "yesterday", Bind: "maybe", Concurrency: -1, Prefetch: -1, MaxAckPending: -1,
		AckWait: time.Millisecond, HandleTimeout: -1, MaxAttempts: -1, RetrySchedule: "soon", DeadLetter: "a b", Ack: "yes", PullExpiry: 1, PullBytes: 10, DrainTimeout: -1,
		StartupTimeout: -1, HTTPAddr: "8080", LogLevel: "loud", LogFormat: "xml", Connection: Connection{URL: "nats://", Cert: "/nowhere/c", Domain: "a b", APIPrefix: "x.>"}}, nil)
	problems := configProblems(t, err)
	for _, words := range [][]string{
		{`STREAM is "a.b"`}, {"CONSUMER", "required"}, {"FILTER", `"x..y"`}, {"FILTER", "e.1", "overlap"}, {"START", `"yesterday"`}, {"BIND", `"maybe"`}, {"CONCURRENCY", `"-1"`},
		{"PREFETCH"}, {"MAX_ACK_PENDING"}, {"ACK_WAIT", `"1ms"`}, {"HANDLE_TIMEOUT"}, {"MAX_ATTEMPTS"}, {"RETRY", `"soon"`}, {"DEAD_LETTER"}, {`ACK is "yes"`}, {"PULL_EXPIRY"},
		{"PULL_BYTES", `"10"`}, {"DRAIN_TIMEOUT"}, {"STARTUP_TIMEOUT"}, {"HTTP_ADDR", `"8080"`}, {"LOG_LEVEL", `"loud"`}, {"LOG_FORMAT", `"xml"`},
		{"NATS_URL"}, {"NATS_CERT", "/nowhere/c"}, {"NATS_CERT and NATS_KEY"}, {"NATS_JS_DOMAIN is"}, {"NATS_JS_API_PREFIX is"}, {"exclude"},
		{"the handler is nil"}, {"the connection is nil"},
	} {
		mentioned(t, problems, words...)
	}
	if n := 30; len(problems) != n {
		t.Errorf("%d problems, want %d:\n%s", len(problems), n, strings.Join(problems, "\n"))
	}
}

// A handler that would panic on the first message is refused before there is one.
func TestNilHandlersAreRefused(t *testing.T) {
	var function func(context.Context, *ackfloor.Message) error
	for name, h := range map[string]ackfloor.Handler{"nil": nil, "HandlerFunc(nil)": ackfloor.HandlerFunc(nil), "a nil function": ackfloor.HandlerFunc(function)} {
		_, err := New(new(nats.Conn), Config{Stream: "S", Consumer: "C"}, h)
		if p := configProblems(t, err); len(p) != 1 || !strings.Contains(p[0], "handler is nil") {
			t.Errorf("%s: %v", name, p)
		}
	}
}

// A policy of one's own goes before the schedule, a wrong one of which then does no harm.
func TestPolicyGoesBeforeSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := New(testutil.Bubble(t).Conn(t), Config{Stream: "S", Consumer: "C", RetrySchedule: "soon", Retry: retry.Constant(42)}, testutil.Succeed())
		if err != nil {
			t.Fatal(err)
		}
		if d, _ := r.policy(1, errWork); d != 42 {
			t.Errorf("the delay is %v", d)
		}
	})
}

func TestNames(t *testing.T) {
	for _, s := range []string{"EVENTS", "a-b_c", "ünï", "1", "$S", strings.Repeat("x", 255)} {
		if !validName(s) {
			t.Errorf("%q is refused", s)
		}
	}
	for _, s := range []string{"", "a b", "a.b", "a*", ">", "a/b", `a\b`, "a\tb", "a\nb", "a\x00b", strings.Repeat("x", 256)} {
		if validName(s) {
			t.Errorf("%q is taken", s)
		}
	}
}

func TestSubjects(t *testing.T) {
	for _, s := range []string{"a", "a.b", "*", ">", "a.*.c", "a.>", "*.>", "$KV.a", "a*b", "a.b>"} {
		if !validSubject(s) {
			t.Errorf("%q is refused", s)
		}
	}
	for _, s := range []string{"", ".", "a.", ".a", "a..b", "a b", "a.>.b", ">.a", "a\tb", "a\nb"} {
		if validSubject(s) {
			t.Errorf("%q is taken", s)
		}
	}
}

func TestConfigErrorWords(t *testing.T) {
	one, two := &ConfigError{Problems: []string{"X is wrong"}}, &ConfigError{Problems: []string{"X is wrong", "Y too"}}
	if s := one.Error(); s != "worker: configuration: X is wrong" {
		t.Errorf("one: %q", s)
	}
	if s := two.Error(); s != "worker: configuration: 2 problems:\n  - X is wrong\n  - Y too" {
		t.Errorf("two: %q", s)
	}
}
