package retry

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Schedule is a retry policy as a person writes it down: the value of WORKER_RETRY. Unlike a Policy it can be looked into,
// so that a program can check at its start what the policy would do later. Make one with Parse; the zero Schedule has no
// delays, and its Policy is Never.
type Schedule struct {
	delays      []time.Duration // exponential: from and to; else the table, one entry for a constant
	exponential bool
}

// accepted ends every error of Parse: whoever mistyped a value wants to know what to type.
const accepted = `want from..to ("1s..5m"), a list ("1s,10s,1m") or one delay ("5s"), each above 0`

// Parse reads a schedule in one of three forms, with durations as time.ParseDuration has them:
//
//	1s..5m      Exponential(1s, 5m)
//	1s,10s,1m   Table(1s, 10s, 1m)
//	5s          Constant(5s)
//
// Spaces around a duration are ignored. Every delay must be above 0, and from at most to. An error names the value, the
// fault in it and what is accepted.
func Parse(s string) (Schedule, error) {
	var words []string
	from, to, exponential := strings.Cut(s, "..")
	switch {
	case strings.TrimSpace(s) == "":
		return Schedule{}, fmt.Errorf("retry: no delays: %s", accepted)
	case strings.HasPrefix(to, "."): // else 1s...5m would be read as 1s to .5m, 30 seconds
		return Schedule{}, fmt.Errorf("retry: %q has more than two dots in a row: %s", s, accepted)
	case exponential:
		words = []string{from, to}
	default:
		words = strings.Split(s, ",")
	}
	delays := make([]time.Duration, len(words))
	for i, word := range words {
		word = strings.TrimSpace(word)
		d, err := time.ParseDuration(word)
		if err != nil {
			return Schedule{}, fmt.Errorf("retry: %q: %q is not a duration: %s", s, word, accepted)
		}
		if d <= 0 {
			return Schedule{}, fmt.Errorf("retry: %q: %s is not above 0: %s", s, word, accepted)
		}
		delays[i] = d
	}
	if exponential && delays[0] > delays[1] {
		return Schedule{}, fmt.Errorf("retry: %q: from is above to: %s", s, accepted)
	}
	return Schedule{delays: delays, exponential: exponential}, nil
}

// Policy returns the policy that the schedule describes.
func (s Schedule) Policy() Policy {
	switch {
	case len(s.delays) == 0:
		return Never()
	case s.exponential:
		return Exponential(s.delays[0], s.delays[1])
	default:
		return Table(s.delays...)
	}
}

// Min returns the shortest delay that the policy can choose; 0 for the zero Schedule.
func (s Schedule) Min() time.Duration {
	if len(s.delays) == 0 {
		return 0
	}
	return slices.Min(s.delays)
}

// Max returns the longest delay that the policy can choose; 0 for the zero Schedule.
func (s Schedule) Max() time.Duration {
	if len(s.delays) == 0 {
		return 0
	}
	return slices.Max(s.delays)
}

// String writes the schedule in the form that Parse reads, shortest way ("5m", not "5m0s"); "" for the zero Schedule.
func (s Schedule) String() string {
	words := make([]string, len(s.delays))
	for i, d := range s.delays {
		words[i] = short(d)
	}
	if s.exponential {
		return strings.Join(words, "..")
	}
	return strings.Join(words, ",")
}

func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
