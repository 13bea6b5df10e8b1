package worker

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// No text that may hold a server's URL shows what stands before its host.
func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"":                                  "",
		"nats://127.0.0.1:4222":             "nats://127.0.0.1:4222",
		"nats://bob:hunter2@host:4222":      "nats://xxxxx@host:4222",
		"nats://t0ken@host:4222":            "nats://xxxxx@host:4222",
		"nats://bob:hun@ter2@host:4222":     "nats://xxxxx@host:4222",
		"tls://bob:hunter2@[::1]:4222":      "tls://xxxxx@[::1]:4222",
		"wss://bob:hunter2@host/path":       "wss://xxxxx@host/path",
		"bob:hunter2@host:4222":             "xxxxx@host:4222",
		"t0ken@host:4222":                   "xxxxx@host:4222",
		"nats://a:b@h1:1,nats://c:d@h2:2":   "nats://xxxxx@h1:1,nats://xxxxx@h2:2",
		"nats://a:b@h1:1,c:d@h2:2":          "nats://xxxxx@h2:2",
		"dial nats://bob:hunter2@h:1: no":   "dial nats://xxxxx@h:1: no",
		`parse "nats://bob:hunter2@h:x": y`: `parse "nats://xxxxx@h:x": y`,
		"mail to bob@example.com failed":    "mail to bob@example.com failed",
		"GET https://example.com/@bob":      "GET https://example.com/@bob",
	} {
		if got := redact(in); got != want {
			t.Errorf("redact(%q) = %q, want %q", in, got, want)
		}
	}
}

// The value of NATS_URL is known to be addresses: whatever odd characters a password has, it is not shown.
func TestRedactURLValue(t *testing.T) {
	for _, secret := range []string{"hunter2", "hun/ter2", "hun,ter2", `hun"ter2`, "hun ter2", "hun@ter2", "hun:ter2", "hun?ter2", "hun#ter2", "hun%zzter2", "hun\nter2", "://hunter2"} {
		for _, form := range []string{"nats://bob:%s@host:4222", "nats://%s@host:4222", "nats://bob:%s@host", "bob:%s@host:4222", "%s@host", "%s@host:4222",
			"nats://h1:4222,nats://bob:%s@host:4222", "nats://bob:%s@h1:4222,nats://host:4222"} {
			value := fmt.Sprintf(form, secret)
			c := Connection{URL: value}
			shown := map[string]string{"shown value": redactURL(value), "problem": strings.Join(c.problems(), "; ")}
			for what, s := range shown {
				if strings.Contains(s, "ter2") || strings.Contains(s, "hun") {
					t.Errorf("%s of %q: %q", what, value, s)
				}
			}
			if !strings.Contains(redactURL(value), "host") {
				t.Errorf("%q is shown as %q: the host is lost", value, redactURL(value))
			}
		}
	}
}

// The parse errors of net/url print the whole URL.
func TestRedactParseErrors(t *testing.T) {
	for _, u := range []string{"nats://bob:hunter2@host:port", "nats://bob:hunter2@ho st:4222", "nats://bob:hunter2@[::1:4222", "nats://bob:hunter2@host:4222/%zz"} {
		_, err := url.Parse(u)
		if err == nil || !strings.Contains(err.Error(), "hunter2") {
			t.Fatalf("%q: the error no longer holds the password: %v", u, err)
		}
		if s := redact(err.Error()); strings.Contains(s, "hunter2") {
			t.Errorf("%q: %s", u, s)
		}
	}
}

// FuzzRedact checks that a password in a well-formed URL is shown in no text around it, and that redacting twice changes nothing more.
func FuzzRedact(f *testing.F) {
	f.Add("dial ", "bob", "hunter2", "host:4222", ": refused")
	f.Add(`parse "`, "bob", "a@b", "[::1]:4222", `": invalid`)
	f.Add("", "", "x", "h", ",nats://u:p@h2:1")
	f.Fuzz(func(t *testing.T, before, user, password, host, after string) {
		const mark = "S3CR3T"
		if strings.Contains(before+user+password+host+after, mark) || strings.ContainsAny(host, "/@ \t\r\n\"") || host == "" {
			return
		}
		u := url.URL{Scheme: "nats", User: url.UserPassword(user, password+mark+password), Host: host}
		text := before + u.String() + after
		got := redact(text)
		if strings.Contains(got, mark) {
			t.Fatalf("%q is shown as %q", text, got)
		}
		if again := redact(got); again != got {
			t.Fatalf("%q, redacted twice: %q", got, again)
		}
		raw := "nats://" + user + ":" + password + mark + "@host:4222" // as people write it, not escaped
		if shown := redactURL(raw); strings.Contains(shown, mark) {
			t.Fatalf("the value %q is shown as %q", raw, shown)
		}
		if shown := strings.Join(Connection{URL: raw}.problems(), " "); strings.Contains(shown, mark) {
			t.Fatalf("%q is refused with %q", raw, shown)
		}
	})
}

// Errors that reach people through Run are redacted where they may hold a URL.
func TestErrorsShowNoSecret(t *testing.T) {
	_, err := Connect(t.Context(), Connection{URL: "nats://bob:hunter2@host:port"})
	config, ok := errors.AsType[*ConfigError](err)
	if !ok || strings.Contains(err.Error(), "hunter2") || !strings.Contains(config.Problems[0], "NATS_URL") {
		t.Errorf("Connect returned %v", err)
	}
}
