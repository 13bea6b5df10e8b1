package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/spf13/cobra"
)

var (
	reasons = []string{deadletter.ReasonPermanent, deadletter.ReasonUndecodable, deadletter.ReasonExhausted, deadletter.ReasonTimedOut, deadletter.ReasonCrash}
	states  = []string{string(deadletter.StateOpen), string(deadletter.StateReplaying), string(deadletter.StateHandled)}
)

// filterFlags choose letters.
type filterFlags struct {
	source, consumer, subject, reason, err, state, since, until string

	limit int
}

func (c *command) filterFlags(cmd *cobra.Command, f *filterFlags) {
	flags := cmd.Flags()
	flags.StringVar(&f.source, "source", "", "only letters of messages of this stream")
	flags.StringVar(&f.consumer, "consumer", "", "only letters of this durable consumer")
	flags.StringVar(&f.subject, "subject", "", "only letters of messages with this subject; * and > stand for tokens")
	flags.StringVar(&f.reason, "reason", "", "only letters with this reason: "+strings.Join(reasons, ", "))
	flags.StringVar(&f.err, "error", "", "only letters whose error holds this text")
	flags.StringVar(&f.state, "state", "", "only letters in this state: "+strings.Join(states, ", "))
	flags.StringVar(&f.since, "since", "", "only letters stored since then: 2h or 7d ago, a date, or RFC 3339")
	flags.StringVar(&f.until, "until", "", "only letters stored until then")
	flags.IntVar(&f.limit, "limit", 0, "no more than so many, the oldest first; 0 is all")
	c.complete(cmd, "consumer", c.completeNames(func(stream, consumer string) string { return consumer }))
	c.complete(cmd, "source", c.completeNames(func(stream, consumer string) string { return stream }))
	c.complete(cmd, "reason", fixed(reasons))
	c.complete(cmd, "state", fixed(states))
	for _, name := range []string{"subject", "error", "since", "until", "limit"} {
		c.complete(cmd, name, cobra.NoFileCompletions)
	}
}

// any tells whether one of the filters is set; a limit is none, since it chooses nothing.
func (f filterFlags) any() bool {
	f.limit = 0
	return f != filterFlags{}
}

// filter checks what the flags say. Times are counted back from now.
func (f filterFlags) filter(now time.Time) (deadletter.Filter, error) {
	out := deadletter.Filter{Stream: f.source, Consumer: f.consumer, Subject: f.subject, Error: f.err}
	if f.reason != "" {
		out.Reason = strings.NewReplacer("-", " ", "_", " ").Replace(f.reason)
		if !slices.Contains(reasons, out.Reason) {
			return out, usagef("--reason is %q: it takes %s", f.reason, strings.Join(reasons, ", "))
		}
	}
	if f.state != "" {
		out.State = deadletter.State(f.state)
		if !slices.Contains(states, f.state) {
			return out, usagef("--state is %q: it takes %s", f.state, strings.Join(states, ", "))
		}
	}
	if f.limit < 0 {
		return out, usagef("--limit is %d: it takes a whole number from 0", f.limit)
	}
	if err := errors.Join(checkName("--source", f.source), checkName("--consumer", f.consumer)); err != nil {
		return out, err
	}
	for token := range strings.SplitSeq(f.subject, ".") {
		if f.subject != "" && token == "" {
			return out, usagef("--subject is %q: it takes a subject, with * and > for tokens", f.subject)
		}
	}
	var err error
	if out.Since, err = moment("--since", f.since, now); err != nil {
		return out, err
	}
	if out.Until, err = moment("--until", f.until, now); err != nil {
		return out, err
	}
	return out, nil
}

// checkName refuses what is no name of a stream or consumer.
func checkName(flag, name string) error {
	if strings.ContainsAny(name, ".*>/\\ \t\r\n") {
		return usagef("%s is %q: it takes a name, without blanks, dots, wildcards and slashes", flag, name)
	}
	return nil
}

// moment reads a time: how long ago, or when. The zero time is for an empty text.
func moment(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 && n < 36500 {
			return now.Add(-time.Duration(n * 24 * float64(time.Hour))), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("%s is %q: it takes how long ago, such as 2h or 7d, or a time such as 2026-11-30, \"2026-11-30 15:04:05\" or RFC 3339", flag, s)
}
