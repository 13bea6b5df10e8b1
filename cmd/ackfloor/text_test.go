package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                         "",
		"events.order_placed":      "events.order_placed",
		"Zürich 東京 👍":              "Zürich 東京 👍",
		"\x1b[2J":                  `\x1b[2J`,
		"a\r\nb\tc\x00":            `a\r\nb\tc\x00`,
		"\x7f\u0085\u009b":         `\x7f\u0085\u009b`,
		"\u202eexe\u2066\u2028":    `\u202eexe\u2066\u2028`,
		"\U000e0041":               `\U000e0041`,
		"\xff\xfe":                 `\xff\xfe`,
		"\xe2\x82":                 `\xe2\x82`,
		string(utf8.RuneError):     string(utf8.RuneError),
		"zero\u200bwidth\ufeff":    `zero\u200bwidth\ufeff`,
		"soft\u00adhyphen\u061c\\": `soft\u00adhyphen\u061c\`,
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
	if got := printableText("a\tb\nc\r"); got != "a\tb\nc\\r" {
		t.Errorf("printableText: %q", got)
	}
}

func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"", "a\x1b[0m", "\u202e", "\xff", "{\"a\": \"\u009b\"}", "\U000e0001"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if out := printable(s); !utf8.ValidString(out) || strings.ContainsFunc(out, unsafe) {
			t.Errorf("printable(%q) = %q", s, out)
		}
		if _, text := describePayload([]byte(s)); !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && unsafe(r) }) {
			t.Errorf("payload %q is shown as %q", s, text)
		}
		raw, err := json.Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		out := printableJSON(raw)
		if strings.ContainsFunc(string(out), unsafe) {
			t.Errorf("printableJSON(%q) = %q", raw, out)
		}
		var want, got map[string]string
		if errors.Join(json.Unmarshal(raw, &want), json.Unmarshal(out, &got)) != nil || !reflect.DeepEqual(want, got) {
			t.Errorf("printableJSON(%q) = %q, which says something else", raw, out)
		}
	})
}

func TestDescribePayload(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 10000) + strings.Repeat("]", 10000)
	long := strings.Repeat("é", shownBytes)
	for _, c := range []struct {
		name, data, kind, text string
	}{
		{"nothing", "", "empty", ""},
		{"JSON", `{"a":[1,{}]}`, "JSON", "{\n  \"a\": [\n    1,\n    {}\n  ]\n}\n"},
		{"a large number", ` 12345678901234567890.10 `, "JSON", "12345678901234567890.10\n"},
		{"JSON that isn't UTF-8", "\"\xff\"", "binary", hex.Dump([]byte("\"\xff\""))},
		{"two values", "1 2", "text", "1 2\n"},
		{"cut JSON", `{"a":`, "text", "{\"a\":\n"},
		{"text", "a\n\tb\r\n", "text", "a\n\tb\\r\n"},
		{"bytes", "\x00\xff", "binary", hex.Dump([]byte("\x00\xff"))},
		{"an escape", "\x1b[0m", "binary", hex.Dump([]byte("\x1b[0m"))},
		{"JSON that would become a hundred times as long", deep, "text", deep + "\n"},
		{"long text, cut within a character", "x" + long, "text", "x" + long[:shownBytes-2] + "\n" + "… and 65537 bytes more: --raw writes all of them\n"},
	} {
		kind, text := describePayload([]byte(c.data))
		if kind != c.kind || text != c.text {
			t.Errorf("%s: %s %.200q, want %s %.200q", c.name, kind, text, c.kind, c.text)
		}
	}
	if _, text := describePayload(make([]byte, 1<<20)); len(text) > 6*shownBytes {
		t.Errorf("a megabyte is shown in %d bytes", len(text))
	}
}

func TestMoment(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.FixedZone("here", 3600))
	for in, want := range map[string]time.Time{
		"":                          {},
		"2h":                        now.Add(-2 * time.Hour),
		"1h30m":                     now.Add(-90 * time.Minute),
		"7d":                        now.AddDate(0, 0, -7),
		"0.5d":                      now.Add(-12 * time.Hour),
		"0s":                        now,
		"2026-11-29":                time.Date(2026, 11, 29, 0, 0, 0, 0, now.Location()),
		"2026-11-29 08:15":          time.Date(2026, 11, 29, 8, 15, 0, 0, now.Location()),
		"2026-11-29 08:15:30":       time.Date(2026, 11, 29, 8, 15, 30, 0, now.Location()),
		"2026-11-29T08:15:30Z":      time.Date(2026, 11, 29, 8, 15, 30, 0, time.UTC),
		"2026-11-29T08:15:30+05:00": time.Date(2026, 11, 29, 3, 15, 30, 0, time.UTC),
	} {
		if got, err := moment("--since", in, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"-2h", "2", "d", "-1d", "NaNd", "Infd", "1e9d", "yesterday", "2026-13-01", "2026-11-29T08:15:30"} {
		if got, err := moment("--since", in, now); err == nil {
			t.Errorf("%q is %v", in, got)
		}
	}
}

func TestAgo(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		1900 * time.Millisecond: "1s", 61 * time.Second: "1m1s", 2*time.Hour + 3*time.Minute: "2h3m", 49 * time.Hour: "2d1h",
	} {
		if got := ago(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
