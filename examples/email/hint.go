package main

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	hintWords = regexp.MustCompile(`(?i)\b(again|retry|wait|later|back|gr[ea]ylist\w*|defer\w*|throttl\w*)\b`)
	hintUnits = regexp.MustCompile(`(?i)\b(\d{1,6}) ?(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?)\b`)
	hintClock = regexp.MustCompile(`\b(\d{1,2}):(\d{2}):(\d{2})\b`) // as milter-greylist says it
)

// hint is when a server says that it wants to be asked again: "try again in 60 seconds", "greylisted for 5 minutes", "come back in 00:05:00". There is no
// standard for it, so only a number with a unit, in a text that speaks of coming again, counts.
func hint(text string) (after time.Duration, ok bool) {
	if !hintWords.MatchString(text) {
		return 0, false
	}
	if c := hintClock.FindStringSubmatch(text); c != nil {
		after = number(c[1])*time.Hour + number(c[2])*time.Minute + number(c[3])*time.Second
	} else if u := hintUnits.FindStringSubmatch(text); u != nil {
		unit := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour}[strings.ToLower(u[2])[0]]
		after = number(u[1]) * unit
	}
	return after, after > 0
}

func number(digits string) time.Duration {
	n, _ := strconv.Atoi(digits) // six digits at the most
	return time.Duration(n)
}
