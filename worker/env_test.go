package worker

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ackfloor/ackfloor/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func valueOf(v any, f reflect.StructField) string {
	return fmt.Sprint(reflect.ValueOf(v).FieldByIndex(f.Index).Interface())
}

// environ is a valid environment with changes: pairs of name and value.
func environ(pairs ...string) map[string]string {
	e := map[string]string{"WORKER_STREAM": "S", "WORKER_CONSUMER": "C"}
	for i := 0; i < len(pairs); i += 2 {
		e[pairs[i]] = pairs[i+1]
	}
	return e
}

// The table of DESIGN.md: each variable with its default, values that it takes, how they read, and values that it does not take.
func TestEnvironmentTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		name, byDefault string
		good            [][2]string // value, and how it reads
		bad             []string
	}{
		{"WORKER_STREAM", "S", [][2]string{{"EVENTS", "EVENTS"}}, []string{"a b", "a.b", "a*", ">", "a/b"}},
		{"WORKER_CONSUMER", "C", [][2]string{{"my-worker_1", "my-worker_1"}}, []string{"a b", "a.b", "a>"}},
		{"WORKER_FILTER", "[]", [][2]string{{"a.b", "[a.b]"}, {" a.b , c.> ,", "[a.b c.>]"}, {">", "[>]"}}, []string{"a..b", "a b", ">.a", "a.>,a.b", "a.*,*.b", "a,a"}},
		{"WORKER_START", "", [][2]string{{"all", "all"}, {"new", "new"}, {"last", "last"}, {"seq:7", "seq:7"}, {"time:2026-11-05T08:00:00Z", "time:2026-11-05T08:00:00Z"}}, []string{"All", "seq:", "seq:0", "seq:-1", "seq:x", "time:", "time:yesterday", "time:2026-11-05", "first"}},
		{"WORKER_BIND", "ensure", [][2]string{{"ensure", "ensure"}, {"update", "update"}, {"existing", "existing"}}, []string{"create", "Ensure"}},
		{"WORKER_CONCURRENCY", "16", [][2]string{{"1", "1"}, {"10000", "10000"}}, []string{"0", "-1", "10001", "many", "1.5", "1e3"}},
		{"WORKER_PREFETCH", "0", [][2]string{{"500", "500"}}, []string{"-1", "some"}},
		{"WORKER_MAX_ACK_PENDING", "0", [][2]string{{"5000", "5000"}}, []string{"-1", "x"}},
		{"WORKER_ACK_WAIT", "30s", [][2]string{{"100ms", "100ms"}, {"1m30s", "1m30s"}}, []string{"30", "99ms", "0s", "-1s", "soon"}},
		{"WORKER_HANDLE_TIMEOUT", "5m0s", [][2]string{{"1h", "1h0m0s"}}, []string{"0s", "-1s", "5"}},
		{"WORKER_MAX_ATTEMPTS", "10", [][2]string{{"1", "1"}}, []string{"0", "-3", "x"}},
		{"WORKER_RETRY", "1s..5m", [][2]string{{"1s,10s,1m", "1s,10s,1m"}, {"5s", "5s"}, {"100ms..1h", "100ms..1h"}}, []string{"5", "5m..1s", "1s,", "0s", "-1s", "soon"}},
		{"WORKER_DEAD_LETTER", "S_DLQ", [][2]string{{"off", "off"}, {"DEAD", "DEAD"}}, []string{"a b", "a.b", "S"}},
		{"WORKER_ACK", "confirm", [][2]string{{"send", "send"}}, []string{"none", "Confirm"}},
		{"WORKER_BATCH_SIZE", "100", [][2]string{{"1", "1"}, {"100000", "100000"}}, []string{"0", "-1", "100001", "x"}},
		{"WORKER_BATCH_BYTES", "4194304", [][2]string{{"1024", "1024"}}, []string{"1023", "0", "1MB"}},
		{"WORKER_BATCH_LINGER", "100ms", [][2]string{{"1ms", "1ms"}, {"5s", "5s"}}, []string{"0s", "-1s", "5"}},
		{"WORKER_PULL_EXPIRY", "1s", [][2]string{{"30s", "30s"}, {"100ms", "100ms"}}, []string{"99ms", "1"}},
		{"WORKER_PULL_BYTES", "16777216", [][2]string{{"1024", "1024"}}, []string{"1023", "0", "1MB"}},
		{"WORKER_DEAD_LETTER_BYTES", "1073741824", [][2]string{{"1048576", "1048576"}}, []string{"1024", "1GB", "-1"}},
		{"WORKER_RECORDS", "ackfloor_S", [][2]string{{"off", "off"}, {"my_bucket", "my_bucket"}}, []string{"a.b", "a b", "a/b"}},
		{"WORKER_PAUSE_UNREADY", "false", [][2]string{{"true", "true"}, {"false", "false"}}, []string{"maybe"}},
		{"WORKER_DRAIN_TIMEOUT", "25s", [][2]string{{"1m", "1m0s"}}, []string{"0s", "-1s", "25"}},
		{"WORKER_STARTUP_TIMEOUT", "1m0s", [][2]string{{"5s", "5s"}}, []string{"0s", "never"}},
		{"WORKER_PINNED_TTL", "0s", [][2]string{{"10s", "10s"}, {"0", "0s"}, {"1s", "1s"}}, []string{"10", "-1s", "999ms", "on"}},
		{"WORKER_EXIT_WHEN_IDLE", "false", [][2]string{{"true", "true"}, {"1", "true"}, {"false", "false"}}, []string{"maybe", "yes"}},
		{"WORKER_HTTP_ADDR", "", [][2]string{{"off", "off"}, {":8080", ":8080"}, {"127.0.0.1:0", "127.0.0.1:0"}, {"[::1]:9090", "[::1]:9090"}}, []string{"8080", "localhost", "localhost:http", "h:70000", "h:-1"}},
		{"WORKER_LOG_LEVEL", "info", [][2]string{{"debug", "debug"}, {"warn", "warn"}, {"error", "error"}}, []string{"loud", "INFO", "fatal"}},
		{"WORKER_LOG_FORMAT", "", [][2]string{{"console", "console"}, {"json", "json"}}, []string{"xml", "JSON"}},
		{"NATS_URL", "nats://127.0.0.1:4222", [][2]string{{"nats://h:1,tls://i:2", "nats://h:1,tls://i:2"}, {"ws://h", "ws://h"}, {"h:4222", "h:4222"}}, []string{"nats://", "nats://h:port", "nats://h:1,,nats://i:2"}},
		{"NATS_CREDS", "", [][2]string{{file, file}}, []string{"/nowhere/creds"}},
		{"NATS_NKEY", "", [][2]string{{file, file}}, []string{"/nowhere/nkey"}},
		{"NATS_USER", "", [][2]string{{"bob", "bob"}}, nil},
		{"NATS_PASSWORD", "", [][2]string{{"p w", "p w"}}, nil},
		{"NATS_TOKEN", "", [][2]string{{"t", "t"}}, nil},
		{"NATS_CERT", "", nil, []string{"/nowhere/cert"}},
		{"NATS_KEY", "", nil, []string{"/nowhere/key"}},
		{"NATS_CA", "", [][2]string{{file, file}}, []string{"/nowhere/ca"}},
		{"NATS_JS_DOMAIN", "", [][2]string{{"hub", "hub"}}, []string{"a b", "a.b"}},
		{"NATS_JS_API_PREFIX", "", [][2]string{{"$JS.hub.API", "$JS.hub.API"}, {"js.", "js."}}, []string{"a.>", "a b", "*"}},
		{"NATS_INBOX_PREFIX", "_INBOX_C", [][2]string{{"_INBOX.me", "_INBOX.me"}}, []string{"a.>", "a.*.b", "a b", "a."}},
	}
	var names []string
	for f := range fields(Config{}) {
		names = append(names, "WORKER_"+f.Tag.Get("env"))
	}
	for f := range fields(Connection{}) {
		names = append(names, f.Tag.Get("env"))
	}
	for _, row := range rows {
		names = slices.DeleteFunc(names, func(n string) bool { return n == row.name })
		read := func(e map[string]string) string {
			c, err := fromEnv("", e)
			if err != nil {
				t.Errorf("%s=%q is refused: %v", row.name, e[row.name], err)
			}
			for f := range fields(c) {
				if "WORKER_"+f.Tag.Get("env") == row.name {
					return valueOf(c, f)
				}
			}
			for f := range fields(c.Connection) {
				if f.Tag.Get("env") == row.name {
					return valueOf(c.Connection, f)
				}
			}
			return "no such field"
		}
		if got := read(environ()); got != row.byDefault {
			t.Errorf("%s is %q by default, want %q", row.name, got, row.byDefault)
		}
		for _, g := range row.good {
			if got := read(environ(row.name, g[0])); got != g[1] {
				t.Errorf("%s=%q reads %q, want %q", row.name, g[0], got, g[1])
			}
		}
		for _, value := range row.bad {
			_, err := fromEnv("", environ(row.name, value))
			if err == nil {
				t.Errorf("%s=%q is taken", row.name, value)
				continue
			}
			named := slices.ContainsFunc(configProblems(t, err), func(p string) bool {
				shown := strings.Contains(p, fmt.Sprintf("%q", value)) || row.name == "WORKER_FILTER" // which shows the parts
				return strings.HasPrefix(p, row.name+" is ") && shown && (strings.Contains(p, "it takes ") || strings.Contains(p, "want "))
			})
			if !named {
				t.Errorf("%s=%q: no problem names the variable, its value and what it takes: %v", row.name, value, err)
			}
		}
	}
	if len(names) > 0 {
		t.Errorf("variables without a row here: %v", names)
	}
}

// Values of the wrong kind and values out of range are told together: who mends one shall not find the next at the next start.
func TestAllFaultsOfTheEnvironmentAtOnce(t *testing.T) {
	_, err := fromEnv("", map[string]string{"WORKER_CONSUMER": "a.b", "WORKER_CONCURRENCY": "many", "WORKER_ACK_WAIT": "30", "WORKER_EXIT_WHEN_IDLE": "maybe", "WORKER_BIND": "create",
		"WORKER_PULL_BYTES": "1", "NATS_CREDS": "/nowhere", "NATS_PASSWORD_FILE": "/nowhere/else"})
	problems := configProblems(t, err)
	for _, words := range [][]string{{"WORKER_STREAM", "required"}, {"WORKER_CONSUMER", `"a.b"`}, {"WORKER_CONCURRENCY", `"many"`, "whole number"}, {"WORKER_ACK_WAIT", `"30"`, "duration"},
		{"WORKER_EXIT_WHEN_IDLE", `"maybe"`, "true or false"}, {"WORKER_BIND", `"create"`, "existing"}, {"WORKER_PULL_BYTES", `"1"`}, {"NATS_CREDS", "/nowhere"}, {"NATS_PASSWORD_FILE", "/nowhere/else"}} {
		mentioned(t, problems, words...)
	}
	if len(problems) != 9 {
		t.Errorf("%d problems, want 9:\n%s", len(problems), strings.Join(problems, "\n"))
	}
}

// NAME= in a unit file means the default, for every variable.
func TestEmptyVariablesAreDefaults(t *testing.T) {
	e := environ()
	for f := range fields(Config{}) {
		if name := "WORKER_" + f.Tag.Get("env"); e[name] == "" {
			e[name] = ""
		}
	}
	for f := range fields(Connection{}) {
		e[f.Tag.Get("env")], e[f.Tag.Get("env")+"_FILE"] = "", ""
	}
	empty, err := fromEnv("", e)
	unset, err2 := fromEnv("", environ())
	if err != nil || err2 != nil || !reflect.DeepEqual(empty, unset) {
		t.Errorf("empty variables read %+v, %v\nwithout them       %+v, %v", empty, err, unset, err2)
	}
}

// A program may choose another prefix, with or without the underscore; the connection's variables have none.
func TestPrefix(t *testing.T) {
	for _, prefix := range []string{"EMAIL", "EMAIL_"} {
		c, err := fromEnv(prefix, map[string]string{"EMAIL_STREAM": "S", "EMAIL_CONSUMER": "C", "EMAIL_CONCURRENCY": "3", "WORKER_CONCURRENCY": "4", "WORKER_FOO": "x", "NATS_USER": "bob"})
		if err != nil || c.Concurrency != 3 || c.Connection.User != "bob" || len(c.unknown) != 0 {
			t.Errorf("%s: %+v, %v", prefix, c, err)
		}
	}
	_, err := fromEnv("EMAIL", map[string]string{"WORKER_STREAM": "S", "EMAIL_CONSUMER": "C", "EMAIL_BIND": "x", "EMAIL_PREFETCH": "x"})
	problems := configProblems(t, err)
	for _, name := range []string{"EMAIL_STREAM is", "EMAIL_BIND is", "EMAIL_PREFETCH is"} {
		mentioned(t, problems, name)
	}
}

// FromEnv reads the process's environment; what it does not know is warned of by New, with the name that was meant and never the value.
func TestUnknownVariables(t *testing.T) {
	for name, value := range environ("WORKER_CONCURENCY", "4", "WORKER_RETRYS", "1s", "WORKER_ZZZZZZZZZZZZZZZZZZZZZ", "hunter2", "WORKERS", "5", "OTHER", "6") {
		t.Setenv(name, value)
	}
	c, err := FromEnv("")
	if err != nil || c.Stream != "S" {
		t.Fatalf("%+v, %v", c, err)
	}
	core, logs := observer.New(zapcore.DebugLevel)
	c.Logger = zap.New(core)
	synctest.Test(t, func(t *testing.T) {
		if _, err := New(testutil.Bubble(t).Conn(t), c, testutil.Succeed()); err != nil {
			t.Fatal(err)
		}
	})
	var got []string
	for _, e := range logs.FilterLevelExact(zapcore.WarnLevel).All() {
		got = append(got, slices.Collect(maps.Values(e.ContextMap()))[0].(string))
	}
	want := []string{"WORKER_CONCURENCY is unknown; did you mean WORKER_CONCURRENCY?", "WORKER_RETRYS is unknown; did you mean WORKER_RETRY?", "WORKER_ZZZZZZZZZZZZZZZZZZZZZ is unknown"}
	if !slices.Equal(got, want) {
		t.Errorf("warned of %q, want %q", got, want)
	}
}
