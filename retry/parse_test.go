package retry_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/retry"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		in, text string
		min, max time.Duration
	}{
		{"1s..5m", "1s..5m", time.Second, 5 * time.Minute},
		{" 1s .. 5m0s ", "1s..5m", time.Second, 5 * time.Minute},
		{"5s..5s", "5s..5s", 5 * time.Second, 5 * time.Second},
		{"1.5s..1h", "1.5s..1h", 1500 * time.Millisecond, time.Hour},
		{"1s,10s,1m", "1s,10s,1m", time.Second, time.Minute},
		{"1m, 10s, 30m", "1m,10s,30m", 10 * time.Second, 30 * time.Minute},
		{"5s", "5s", 5 * time.Second, 5 * time.Second},
		{"90m", "1h30m", 90 * time.Minute, 90 * time.Minute},
		{"1h0m5s", "1h0m5s", time.Hour + 5*time.Second, time.Hour + 5*time.Second},
		{"10m,20h", "10m,20h", 10 * time.Minute, 20 * time.Hour},
		{"1ns", "1ns", 1, 1},
	} {
		s, err := retry.Parse(tc.in)
		if err != nil {
			t.Errorf("Parse(%q): %v", tc.in, err)
			continue
		}
		if s.String() != tc.text || s.Min() != tc.min || s.Max() != tc.max {
			t.Errorf("Parse(%q) = %q, %v to %v; want %q, %v to %v", tc.in, s, s.Min(), s.Max(), tc.text, tc.min, tc.max)
		}
	}
}

func TestParsedPolicies(t *testing.T) {
	policy := func(in string) retry.Policy {
		s, err := retry.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		return s.Policy()
	}
	for in, want := range map[string][]time.Duration{
		"7s":       {7 * time.Second, 7 * time.Second, 7 * time.Second},
		"1m,2s":    {time.Minute, 2 * time.Second, 2 * time.Second},
		"3s..3s":   {3 * time.Second, 3 * time.Second, 3 * time.Second},
		"1s,2s,4s": {time.Second, 2 * time.Second, 4 * time.Second},
	} {
		var got []time.Duration
		for attempt := 1; attempt <= 3; attempt++ {
			d, _ := policy(in)(attempt, errTest)
			got = append(got, d)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", in, got, want)
		}
	}
	exponential, different := policy("1s..5m"), map[time.Duration]bool{}
	for range 10 {
		d, again := exponential(1, errTest)
		if d < time.Second || d > 2*time.Second || !again {
			t.Errorf("1s..5m, attempt 1: %v, %v", d, again)
		}
		different[d] = true
	}
	if len(different) < 2 {
		t.Error("1s..5m has no jitter")
	}
}

func TestParseRefuses(t *testing.T) {
	for in, fault := range map[string]string{
		"":                    "no delays",
		"  ":                  "no delays",
		"5":                   `"5" is not a duration`,
		"soon":                `"soon" is not a duration`,
		"-5s":                 "not above 0",
		"0s":                  "not above 0",
		"0":                   "not above 0",
		"1s,":                 `"" is not a duration`,
		",1s":                 `"" is not a duration`,
		"1s,,2s":              `"" is not a duration`,
		"1s,-2s":              "-2s is not above 0",
		"..":                  `"" is not a duration`,
		"1s..":                `"" is not a duration`,
		"..5m":                `"" is not a duration`,
		"0s..5m":              "not above 0",
		"-1s..5m":             "not above 0",
		"5m..1s":              "from is above to",
		"1s...5m":             "two dots",
		"1s..2s..3s":          `"2s..3s" is not a duration`,
		"1s..2s,3s":           `"2s,3s" is not a duration`,
		"1s;2s":               `"1s;2s" is not a duration`,
		"1s-5m":               "is not a duration",
		"9999999999999h":      "is not a duration",
		"1s..9223372036854ms": "", // the largest there is, about: accepted
	} {
		s, err := retry.Parse(in)
		if fault == "" {
			if err != nil {
				t.Errorf("Parse(%q): %v", in, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("Parse(%q) accepts it as %q", in, s)
			continue
		}
		for _, part := range []string{"retry: ", fault, `"1s..5m"`, `"1s,10s,1m"`, `"5s"`} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("Parse(%q): %q does not say %q", in, err, part)
			}
		}
		if strings.TrimSpace(in) != "" && !strings.Contains(err.Error(), in) {
			t.Errorf("Parse(%q): %q does not show the value", in, err)
		}
	}
}

func TestZeroSchedule(t *testing.T) {
	var s retry.Schedule
	if _, again := s.Policy()(1, errTest); again || s.Min() != 0 || s.Max() != 0 || s.String() != "" {
		t.Errorf("the zero Schedule: again %v, %v to %v, %q", again, s.Min(), s.Max(), s)
	}
}

// Whatever is accepted has delays above 0 within Min and Max, and means the same when it is written out and read again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"1s..5m", "1s,10s,1m", "5s", "", "..", ",", "1s...5m", "5m..1s", "-1s", "0s", "1h0m0s", "1e3s", "+1s .. 2µs", "１s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		s, err := retry.Parse(in)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "retry: ") || s.Max() != 0 {
				t.Errorf("Parse(%q) = %q, %v", in, s, err)
			}
			return
		}
		if s.Min() <= 0 || s.Max() < s.Min() {
			t.Errorf("Parse(%q): %v to %v", in, s.Min(), s.Max())
		}
		for _, attempt := range []int{1, 2, 3, 64, 1e9} {
			if d, again := s.Policy()(attempt, errTest); !again || d < s.Min() || d > s.Max() {
				t.Errorf("Parse(%q), attempt %d: %v, %v; want %v to %v", in, attempt, d, again, s.Min(), s.Max())
			}
		}
		again, err := retry.Parse(s.String())
		if err != nil || again.String() != s.String() || again.Min() != s.Min() || again.Max() != s.Max() {
			t.Errorf("Parse(%q): %q does not come back: %q, %v", in, s, again, err)
		}
	})
}
