package retry_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/retry"
)

var errTest = errors.New("no connection")

func TestFixedPolicies(t *testing.T) {
	delays := []time.Duration{time.Second, -1, time.Minute}
	table := retry.Table(delays...)
	delays[0] = time.Hour // must not reach the policy
	for _, tc := range []struct {
		name    string
		policy  retry.Policy
		attempt int
		delay   time.Duration
		again   bool
	}{
		{"constant", retry.Constant(5 * time.Second), 1, 5 * time.Second, true},
		{"constant, late", retry.Constant(5 * time.Second), 1e9, 5 * time.Second, true},
		{"constant, negative", retry.Constant(-1), 1, 0, true},
		{"table, first", table, 1, time.Second, true},
		{"table, negative", table, 2, 0, true},
		{"table, last", table, 3, time.Minute, true},
		{"table, the last repeats", table, 4, time.Minute, true},
		{"table, late", table, math.MaxInt, time.Minute, true},
		{"table, attempt 0", table, 0, time.Second, true},
		{"table, attempt -1", table, -1, time.Second, true},
		{"never", retry.Never(), 1, 0, false},
		{"limit, before", retry.LimitAttempts(table, 3), 2, 0, true},
		{"limit, at", retry.LimitAttempts(table, 3), 3, 0, false},
		{"limit, after", retry.LimitAttempts(table, 3), 4, 0, false},
		{"limit 1", retry.LimitAttempts(table, 1), 1, 0, false},
		{"limit 0", retry.LimitAttempts(table, 0), 1, 0, false},
		{"limit 0, attempt -1", retry.LimitAttempts(table, 0), -1, 0, false},
		{"limit of never", retry.LimitAttempts(retry.Never(), 9), 1, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			delay, again := tc.policy(tc.attempt, errTest)
			if again != tc.again || again && delay != tc.delay {
				t.Errorf("attempt %d: %v, %v; want %v, %v", tc.attempt, delay, again, tc.delay, tc.again)
			}
		})
	}
}

func TestTableWithoutDelaysPanics(t *testing.T) {
	defer func() {
		if text := fmt.Sprint(recover()); !strings.HasPrefix(text, "retry: ") {
			t.Errorf("recovered %q, want a text of retry's", text)
		}
	}()
	retry.Table()
}

// For every range and attempt: always again, never outside the range promised, and both halves of it are reached.
func TestExponentialStaysInItsRange(t *testing.T) {
	for _, r := range []struct{ from, to, wantFrom, wantTo time.Duration }{
		{time.Second, 5 * time.Minute, time.Second, 5 * time.Minute},
		{1, math.MaxInt64, 1, math.MaxInt64},
		{math.MaxInt64 - 1, math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64},
		{time.Minute, time.Minute, time.Minute, time.Minute},
		{time.Minute, time.Second, time.Minute, time.Minute}, // to below from counts as from
		{0, time.Second, time.Millisecond, time.Second},      // from 0 counts as 1 ms
		{-1, 10, 10, 10},                     // or as to
		{0, 0, 0, 0},                         //
		{math.MinInt64, math.MinInt64, 0, 0}, //
		{3 * time.Hour, math.MaxInt64, 3 * time.Hour, 1<<63 - 1}, //
	} {
		p := retry.Exponential(r.from, r.to)
		for _, attempt := range []int{-1, 0, 1, 2, 3, 9, 10, 19, 20, 21, 31, 32, 33, 61, 62, 63, 64, 65, 1e9, math.MaxInt} {
			// In floating point, which does not overflow, with room for its rounding.
			top := min(float64(r.wantTo), float64(r.wantFrom)*math.Pow(2, float64(max(1, attempt))))
			low, high := time.Duration(math.MaxInt64), time.Duration(0)
			for range 200 {
				d, again := p(attempt, errTest)
				if !again {
					t.Fatalf("Exponential(%d, %d), attempt %d: not again", r.from, r.to, attempt)
				}
				low, high = min(low, d), max(high, d)
			}
			if low < r.wantFrom || float64(high) > top*(1+1e-15) || high > r.wantTo {
				t.Errorf("Exponential(%d, %d), attempt %d: %d to %d; want %d to %.0f", r.from, r.to, attempt, low, high, r.wantFrom, top)
			}
			// 200 draws all in one half: once in 2^199.
			middle := (float64(r.wantFrom) + top) / 2
			if top-float64(r.wantFrom) > 100 && (float64(low) > middle || float64(high) < middle) {
				t.Errorf("Exponential(%d, %d), attempt %d: %d to %d is no full jitter up to %.0f", r.from, r.to, attempt, low, high, top)
			}
		}
	}
}

// The table in the doc comment of Exponential is what Exponential does. Its columns are computed here from the rule and
// the rule is held against draws.
func TestDocTable(t *testing.T) {
	source, err := os.ReadFile("retry.go")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^//\t(\d+) +(\S+) +(\S+) +(\S+) +(\S+)$`).FindAllStringSubmatch(string(source), -1)
	if len(rows) != 10 {
		t.Fatalf("found %d rows, want 10", len(rows))
	}
	p := retry.Exponential(time.Second, 5*time.Minute)
	var summed time.Duration
	for i, row := range rows {
		attempt, from, to := i+1, time.Second, min(5*time.Minute, time.Second<<(i+1))
		mean := (from + to) / 2
		summed += mean
		want := fmt.Sprintf("%d %s %s %s %s", attempt, short(from), short(to), short(mean), short(summed))
		if got := strings.Join(row[1:], " "); got != want {
			t.Errorf("the table says %q, want %q", got, want)
		}
		const draws = 20000
		var sum, low, high time.Duration = 0, math.MaxInt64, 0
		for range draws {
			d, _ := p(attempt, errTest)
			sum, low, high = sum+d, min(low, d), max(high, d)
		}
		width := to - from
		if low < from || low > from+width/100 || high > to || high < to-width/100 {
			t.Errorf("attempt %d: drew %v to %v, the table says %v to %v", attempt, low, high, from, to)
		}
		// The standard error of the mean is width/√12/√draws, a fifth of a percent of width: 2 % is ten of them.
		if off := (sum/draws - mean).Abs(); off > width/50 {
			t.Errorf("attempt %d: the mean is off by %v", attempt, off)
		}
	}
	if minutes := (summed - 150500*time.Millisecond).Round(time.Minute); minutes != 7*time.Minute {
		t.Errorf("nine delays take %v, the comment says about seven minutes", minutes)
	}
}

// short writes 5m as the table does; the one used by String is tested by way of Parse.
func short(d time.Duration) string {
	return regexp.MustCompile(`([hm])0[ms](0s)?$`).ReplaceAllString(d.String(), "$1")
}

func TestLimitAge(t *testing.T) {
	aged := func(age time.Duration) error {
		return fmt.Errorf("wrapped: %w", &retry.Failure{Err: errTest, Age: age})
	}
	for _, tc := range []struct {
		name  string
		delay time.Duration
		limit time.Duration
		err   error
		again bool
	}{
		{"young", time.Minute, time.Hour, aged(time.Minute), true},
		{"just reaches it", time.Minute, time.Hour, aged(59 * time.Minute), true},
		{"would exceed it", time.Minute, time.Hour, aged(59*time.Minute + 1), false},
		{"over it", 0, time.Hour, aged(time.Hour + 1), false},
		{"no age", time.Minute, time.Second, errTest, true},
		{"no error", time.Minute, time.Second, nil, true},
		{"the server's clock is ahead", time.Minute, time.Hour, aged(-2 * time.Hour), true},
		{"ahead, but the delay alone is too long", 2 * time.Hour, time.Hour, aged(-2 * time.Hour), false},
		{"huge delay", math.MaxInt64, time.Hour, aged(time.Hour), false},
		{"huge age", math.MaxInt64, time.Hour, aged(math.MaxInt64), false},
		{"negative limit", 1, math.MinInt64, aged(math.MaxInt64), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			delay, again := retry.LimitAge(retry.Constant(tc.delay), tc.limit)(1, tc.err)
			if again != tc.again || again && delay != tc.delay {
				t.Errorf("got %v, %v; want again %v", delay, again, tc.again)
			}
		})
	}
	if _, again := retry.LimitAge(retry.Never(), time.Hour)(1, aged(0)); again {
		t.Error("LimitAge made Never try again")
	}
}

func TestFailure(t *testing.T) {
	err := error(&retry.Failure{Err: fmt.Errorf("read: %w", io.ErrUnexpectedEOF), Age: time.Second})
	if err.Error() != "read: unexpected EOF" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q hides its error", err)
	}
	if text := (&retry.Failure{}).Error(); !strings.HasPrefix(text, "retry: ") {
		t.Errorf("without an error: %q", text)
	}
}
