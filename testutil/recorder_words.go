package testutil

import (
	"fmt"
	"strings"
)

// ended returns the calls that are not under way.
func ended(calls []Call) []Call {
	var all []Call
	for _, c := range calls {
		if c.to != 0 {
			all = append(all, c)
		}
	}
	return all
}

// summary tells what was recorded: the numbers, and the last few calls.
func summary(calls []Call) string {
	if len(calls) == 0 {
		return "the handler was never called"
	}
	done := len(ended(calls))
	var text strings.Builder
	fmt.Fprintf(&text, "%d calls ended and %d are under way, with %d different messages; the last:", done, len(calls)-done, distinct(calls))
	for _, c := range calls[max(0, len(calls)-8):] {
		fmt.Fprintf(&text, "\n\t%s", c)
	}
	return text.String()
}

// String tells the call in one line.
func (c Call) String() string {
	text := fmt.Sprintf("sequence %d, attempt %d, %s: ", c.Sequence, c.Attempt, c.Subject)
	switch {
	case c.to == 0:
		return text + "under way since " + c.Start.Format("15:04:05.000")
	case c.NoReturn:
		text += "panicked or called Goexit"
	case c.Err != nil:
		text += fmt.Sprintf("returned %q", c.Err)
	default:
		text += "returned nil"
	}
	text += fmt.Sprintf(" after %v", c.End.Sub(c.Start))
	if c.Cause != nil {
		text += fmt.Sprintf(", its context ended: %v", c.Cause)
	}
	return text
}
