package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/shutdown"
	"golang.org/x/time/rate"
)

var variables = []string{"SMTP_URL", "SMTP_URL_FILE", "SMTP_FROM", "SMTP_CA", "EMAIL_RATE", "EMAIL_PAUSE"}

func setenv(t *testing.T, env map[string]string) {
	t.Helper()
	for _, name := range variables {
		t.Setenv(name, env[name])
	}
}

func TestWithNothingSetItIsTheDemo(t *testing.T) {
	setenv(t, nil)
	s, err := fromEnv()
	must(t, err)
	if s.server != nil || s.from.Address != "shop@example.com" || s.gate == nil || s.pause != 15*time.Second {
		t.Errorf("%+v", s)
	}
}

func TestSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "smtp_url")
	must(t, os.WriteFile(file, []byte("smtps://shop:s3cret%2Fp%40ss@mail.example.com\n"), 0o600))
	for name, c := range map[string]struct {
		env   map[string]string
		check func(settings) bool
	}{
		"smtp": {map[string]string{"SMTP_URL": "smtp://mail.example.com"}, func(s settings) bool { return s.server.addr == "mail.example.com:587" && s.server.starttls == required }},
		"a port": {map[string]string{"SMTP_URL": "smtp://[::1]:2525?starttls=none&helo=me.example.com"}, func(s settings) bool {
			return s.server.addr == "[::1]:2525" && s.server.starttls == none && s.server.helo == "me.example.com"
		}},
		"a file": {map[string]string{"SMTP_URL_FILE": file}, func(s settings) bool {
			return s.server.addr == "mail.example.com:465" && s.server.implicit && s.server.password == password
		}},
		"no limit":    {map[string]string{"SMTP_URL": "smtp://mail.example.com", "EMAIL_RATE": "off"}, func(s settings) bool { return s.gate == nil }},
		"an IDN from": {map[string]string{"SMTP_URL": "smtp://mail.example.com", "SMTP_FROM": "Läden <shop@bücher.example>"}, func(s settings) bool { return s.from.Address == "shop@xn--bcher-kva.example" }},
	} {
		t.Run(name, func(t *testing.T) {
			if c.env["SMTP_FROM"] == "" {
				c.env["SMTP_FROM"] = "shop@example.com"
			}
			setenv(t, c.env)
			if s, err := fromEnv(); err != nil || !c.check(s) {
				t.Errorf("%+v, %v", s.server, err)
			}
		})
	}
}

func TestWhatIsWrongIsSaidWithoutThePassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "empty")
	must(t, os.WriteFile(file, []byte("\n"), 0o600))
	for env, want := range map[string]string{
		"SMTP_URL=shop:s3cret/p@ss@mail.example.com":                         "SMTP_URL (not shown",
		"SMTP_URL=smtp://shop:s3cret/p@ss@mail.example.com":                  "SMTP_URL (not shown",
		"SMTP_URL=smtp://shop:s3cret%zz@mail.example.com":                    "SMTP_URL (not shown",
		"SMTP_URL=http://shop:s3cret@mail.example.com":                       "SMTP_URL (not shown",
		"SMTP_URL=smtp://shop@mail.example.com":                              "not both",
		"SMTP_URL=smtp://shop:s3cret@":                                       "SMTP_URL (not shown",
		"SMTP_URL=smtp://shop:s3cret@mail.example.com:0":                     "SMTP_URL (not shown",
		"SMTP_URL=smtp://shop:s3cret@mail.example.com?starttls=maybe":        "starttls=required, opportunistic or none",
		"SMTP_URL=smtps://shop:s3cret@mail.example.com?starttls=none":        "starttls=required, opportunistic or none",
		"SMTP_URL=smtp://shop:s3cret@mail.example.com?starttls=none":         "over TLS only",
		"SMTP_URL=smtp://shop:s3cret@mail.example.com?insecure=true":         "?insecure=",
		"SMTP_URL=smtp://shop:s3cret@mail.example.com,SMTP_CA=/nowhere/x":    "SMTP_CA",
		"SMTP_URL=smtp://shop:s3cret@mail.example.com,SMTP_CA=" + file:       "no certificate in PEM",
		"SMTP_URL=smtp://shop:s3cret@mail.example.com,SMTP_URL_FILE=" + file: "both set",
		"SMTP_URL_FILE=" + file:                                              "is empty",
		"SMTP_URL_FILE=/nowhere/x":                                           "SMTP_URL_FILE",
		"SMTP_URL=smtp://mail.example.com,SMTP_FROM=":                        "SMTP_FROM",
		"SMTP_FROM=jörg@example.com":                                         "ASCII",
		"SMTP_FROM=Shop\r\nBcc: eve <shop@example.com>":                      "SMTP_FROM",
		"EMAIL_RATE=10":    "EMAIL_RATE",
		"EMAIL_RATE=0/s":   "EMAIL_RATE",
		"EMAIL_RATE=NaN/s": "EMAIL_RATE",
		"EMAIL_RATE=10/d":  "EMAIL_RATE",
		"EMAIL_PAUSE=10":   "EMAIL_PAUSE",
		"EMAIL_PAUSE=1ms":  "EMAIL_PAUSE",
	} {
		t.Run(env, func(t *testing.T) {
			all := map[string]string{"SMTP_FROM": "shop@example.com"}
			for pair := range strings.SplitSeq(env, ",") {
				name, value, _ := strings.Cut(pair, "=")
				all[name] = value
			}
			setenv(t, all)
			_, err := fromEnv()
			if err == nil || !strings.Contains(err.Error(), want) || shutdown.ExitCode(err) != shutdown.ExitConfig {
				t.Fatalf("%v (exit code %d), want %q and %d", err, shutdown.ExitCode(err), want, shutdown.ExitConfig)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("it shows the password: %v", err)
			}
		})
	}
}

func TestAllThatIsWrongIsSaidAtOnce(t *testing.T) {
	setenv(t, map[string]string{"SMTP_URL": "http://x", "EMAIL_RATE": "x", "EMAIL_PAUSE": "x", "SMTP_FROM": "x"})
	_, err := fromEnv()
	for _, name := range []string{"SMTP_URL", "SMTP_FROM", "EMAIL_RATE", "EMAIL_PAUSE"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v names no %s", err, name)
		}
	}
}

func TestRates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]rate.Limit{"10/s": 10, "600/m": 10, "3600/h": 1, "0.5/s": 0.5, "off": rate.Inf} {
		if got, err := parseRate(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}
