package breaker_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/breaker"
)

func TestConfigFaults(t *testing.T) {
	for _, tc := range []struct {
		cfg  breaker.Config
		want []string // the fields that are named
	}{
		{breaker.Config{}, nil},
		{breaker.Config{Failures: 1, Calls: 1, Delay: 100 * time.Millisecond, MaxDelay: 100 * time.Millisecond, Successes: 1}, nil},
		{breaker.Config{Failures: 1_000_000, Window: 100 * time.Millisecond, Successes: 1_000_000}, nil},
		{breaker.Config{Ratio: 1, Calls: 1, Window: time.Second}, nil},
		{breaker.Config{Failures: -1}, []string{"Failures"}},
		{breaker.Config{Failures: 1_000_001}, []string{"Failures"}},
		{breaker.Config{Calls: -1}, []string{"Calls"}},
		{breaker.Config{Calls: 4}, []string{"Calls"}},
		{breaker.Config{Calls: 1_000_001}, []string{"Calls"}},
		{breaker.Config{Calls: 20, Window: time.Second}, []string{"Calls"}},
		{breaker.Config{Window: time.Millisecond}, []string{"Window"}},
		{breaker.Config{Window: -time.Second}, []string{"Window"}},
		{breaker.Config{Ratio: 0.001, Calls: 1, Window: time.Second}, []string{"Ratio"}},
		{breaker.Config{Ratio: 1.5, Calls: 1, Window: time.Second}, []string{"Ratio"}},
		{breaker.Config{Ratio: -1, Calls: 1, Window: time.Second}, []string{"Ratio"}},
		{breaker.Config{Ratio: math.NaN(), Calls: 1, Window: time.Second}, []string{"Ratio"}},
		{breaker.Config{Ratio: 0.5}, []string{"Calls", "Window"}},
		{breaker.Config{Ratio: 0.5, Failures: 5, Calls: 20, Window: time.Second}, []string{"Failures"}},
		{breaker.Config{Delay: 99 * time.Millisecond}, []string{"Delay"}},
		{breaker.Config{Delay: -1}, []string{"Delay"}},
		{breaker.Config{MaxDelay: time.Second}, []string{"MaxDelay"}},
		{breaker.Config{MaxDelay: -1}, []string{"MaxDelay"}},
		{breaker.Config{Successes: -1}, []string{"Successes"}},
		{breaker.Config{Failures: -1, Window: 1, Delay: 1, MaxDelay: -1, Successes: -1}, []string{"Failures", "Window", "Delay", "MaxDelay", "Successes"}},
		{breaker.Config{Ratio: 2, Failures: 1, Calls: -1}, []string{"Ratio", "Failures", "Calls", "Window"}},
	} {
		b, err := breaker.New(tc.cfg)
		var named []string
		if e, ok := errors.AsType[*breaker.ConfigError](err); ok {
			for _, p := range e.Problems {
				var name string
				if fmt.Sscan(p, &name); !slices.Contains(named, name) {
					named = append(named, name)
				}
			}
			if e.ExitCode() != 78 {
				t.Errorf("exit code %d", e.ExitCode())
			}
		}
		if !slices.Equal(named, tc.want) || (b == nil) != (err != nil) {
			t.Errorf("%+v: %v, want faults of %v", tc.cfg, err, tc.want)
		}
	}
}

func TestConfigErrorText(t *testing.T) {
	_, err := breaker.New(breaker.Config{Delay: time.Millisecond, Successes: -2})
	want := "breaker: configuration: 2 problems:\n" +
		"  - Delay is 1ms: it takes a duration of at least 100ms, such as 10s\n" +
		"  - Successes is -2: it takes a whole number from 1 to 1000000"
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	_, err = breaker.New(breaker.Config{Successes: -2})
	if want := "breaker: configuration: Successes is -2: it takes a whole number from 1 to 1000000"; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestOutage(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errDown, true},
		{fmt.Errorf("x: %w", ackfloor.Permanent(errDown)), false},
		{errors.Join(errDown, ackfloor.RetryAfter(0, errDown)), false},
		{ackfloor.ErrHandleTimeout, true},
	} {
		if got := breaker.Outage(tc.err); got != tc.want {
			t.Errorf("%v: %v", tc.err, got)
		}
	}
}

func TestStateText(t *testing.T) {
	for s, want := range map[breaker.State]string{breaker.Closed: "closed", breaker.HalfOpen: "half-open", breaker.Open: "open", 7: "State(7)"} {
		if s.String() != want {
			t.Errorf("%d is %q", int(s), s)
		}
	}
}
