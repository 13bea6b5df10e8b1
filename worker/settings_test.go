package worker

import (
	"strings"
	"testing"
	"time"
)

// Settings shows every variable as it stands, what is a default, and no secret.
func TestSettings(t *testing.T) {
	c, err := fromEnv("EMAIL", map[string]string{"EMAIL_STREAM": "EVENTS", "EMAIL_CONSUMER": "email", "EMAIL_FILTER": "events.a, events.b", "EMAIL_ACK_WAIT": "10s",
		"EMAIL_CONCURRENCY": "16", "NATS_URL": "nats://bob:s3cret@host:4222", "NATS_PASSWORD": "hunter2", "NATS_USER": "bob"})
	if err != nil {
		t.Fatal(err)
	}
	c, err = c.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]Setting)
	for _, s := range c.Settings("EMAIL") {
		all[s.Name] = s
		if strings.Contains(s.Value, "s3cret") || strings.Contains(s.Value, "hunter2") {
			t.Errorf("%s shows a secret: %s", s.Name, s.Value)
		}
		if s.Usage == "" {
			t.Errorf("%s has no meaning", s.Name)
		}
	}
	n := 0
	for range fields(Config{}) {
		n++
	}
	for range fields(Connection{}) {
		n++
	}
	if len(all) != n {
		t.Errorf("%d settings of %d", len(all), n)
	}
	for name, want := range map[string]Setting{
		"EMAIL_STREAM":         {Value: "EVENTS"},
		"EMAIL_FILTER":         {Value: "events.a,events.b"},
		"EMAIL_ACK_WAIT":       {Value: (10 * time.Second).String()},
		"EMAIL_CONCURRENCY":    {Value: "16", Default: true},
		"EMAIL_DEAD_LETTER":    {Value: "EVENTS_DLQ", Default: true},
		"EMAIL_PREFETCH":       {Value: "0 = automatic", Default: true},
		"EMAIL_HTTP_ADDR":      {Value: "off", Default: true},
		"EMAIL_EXIT_WHEN_IDLE": {Value: "false", Default: true},
		"NATS_URL":             {Value: "nats://xxxxx@host:4222"},
		"NATS_PASSWORD":        {Value: "(set, not shown)"},
		"NATS_TOKEN":           {Value: "", Default: true},
	} {
		if got := all[name]; got.Value != want.Value || got.Default != want.Default {
			t.Errorf("%s is %q (default %v), want %q (%v)", name, got.Value, got.Default, want.Value, want.Default)
		}
	}
}
