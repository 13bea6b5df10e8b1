package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/ackfloor/ackfloor/shutdown"
)

// What became of a letter: the field result in the output of --json.
const (
	resultReplayed = "replayed"
	resultAlready  = "already_replayed"
	resultRemoved  = "removed"
	resultGone     = "gone" // somebody removed it meanwhile
	resultFailed   = "failed"
	resultHandled  = "handled" // with --wait
	resultAgain    = "failed_again"
	resultWould    = "would_" // and a verb: a dry run
	resultSummary  = "summary"
)

// batch does one thing to many letters, one after the other, so that a replay keeps their order.
type batch struct {
	*command
	place *place
	verb  string // such as replay
	past  string // such as replayed
	one   func(ctx context.Context, k pick) (deed, error)

	tally summary
}

// deed is what was done with a letter.
type deed struct {
	result string
	replay uint64 // the sequence of its replay in the dead-letter stream
	again  uint64 // the letter that its replay became, having failed again
}

// deedJSON is a line of the output of replay and rm with --json.
type deedJSON struct {
	Result          string `json:"result"`
	Sequence        uint64 `json:"sequence"`
	Stream          string `json:"stream"`
	Consumer        string `json:"consumer"`
	Subject         string `json:"subject"`
	MessageSequence uint64 `json:"message_sequence"`
	ReplaySequence  uint64 `json:"replay_sequence,omitempty"`
	NewLetter       uint64 `json:"new_letter,omitempty"` // of a replay that failed again
	Error           string `json:"error,omitempty"`
}

// summary is the last line of the output of replay and rm with --json.
type summary struct {
	Result          string `json:"result"` // summary
	Replayed        int    `json:"replayed"`
	AlreadyReplayed int    `json:"already_replayed"`
	Removed         int    `json:"removed"`
	Gone            int    `json:"gone"`
	Missing         int    `json:"missing"` // numbers that name no letter
	Failed          int    `json:"failed"`
	Left            int    `json:"left"` // not tried, since it was interrupted or the server went away
	Handled         int    `json:"handled"`
	FailedAgain     int    `json:"failed_again"`
	Waiting         int    `json:"waiting"` // replayed and not settled yet
}

func (s *summary) count(result string) {
	switch result {
	case resultReplayed:
		s.Replayed++
	case resultAlready:
		s.AlreadyReplayed++
	case resultRemoved:
		s.Removed++
	case resultGone:
		s.Gone++
	case resultFailed:
		s.Failed++
	case resultHandled:
		s.Handled++
	case resultAgain:
		s.FailedAgain++
	}
}

// words is the summary for a person, of what there is to say.
func (s *summary) words(past string) string {
	var parts []string
	add := func(n int, format string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(format, letterCount(n)))
		}
	}
	parts = append(parts, fmt.Sprintf("%s %s", past, letterCount(s.Replayed+s.Removed)))
	add(s.AlreadyReplayed, "%s had been replayed before")
	add(s.Gone, "%s gone meanwhile")
	add(s.Missing, "%s not there")
	add(s.Failed, "%s failed")
	add(s.Left, "%s left")
	return strings.Join(parts, ", ")
}

// run chooses letters, says what would be done or asks, and does it. It returns the letters it was done to.
func (b *batch) run(ctx context.Context, ch choice, filter deadletter.Filter) ([]pick, error) {
	b.tally.Result = resultSummary
	picks, missing, err := b.choose(ctx, b.place, ch, filter)
	if err != nil {
		return nil, err
	}
	b.tally.Missing, b.tally.Left = missing, len(picks)
	switch {
	case len(picks) == 0 && missing == 0:
		b.say("no dead letters%s: nothing to %s", suffixIf(ch.any(), " that match"), b.verb)
	case ch.dryRun:
		return nil, b.dryRun(picks)
	case !ch.yes && len(picks) > 0:
		yes, err := b.ask(ctx, fmt.Sprintf("%s %s?", strings.ToUpper(b.verb[:1])+b.verb[1:], b.about(picks)))
		if err != nil || !yes {
			b.say("nothing was %s", b.past)
			return nil, &coded{shutdown.ExitFailed, errSaid}
		}
	}
	return b.process(ctx, picks)
}

// about says which letters are meant; rm has more to say.
func (b *batch) about(picks []pick) string {
	text := describe(b.place, picks)
	if b.verb != "remove" {
		return text
	}
	open, replaying := 0, 0
	for _, k := range picks {
		switch k.state {
		case deadletter.StateOpen:
			open++
		case deadletter.StateReplaying:
			replaying++
		}
	}
	if open+replaying > 0 {
		text += fmt.Sprintf(", %d of them not handled", open+replaying)
	}
	return text + onTheirWay(replaying, len(picks))
}

func (b *batch) dryRun(picks []pick) error {
	for _, k := range picks {
		if err := b.report(k, deed{result: resultWould + b.verb}, nil); err != nil {
			return err
		}
	}
	b.say("dry run: would %s %s", b.verb, b.about(picks))
	return nil
}

// process goes from letter to letter. It stops at an interruption, after the letter at hand, and where the server is not available.
func (b *batch) process(ctx context.Context, picks []pick) (finished []pick, err error) {
	bar := b.bar(b.verb, len(picks), b.json)
	defer bar.clear()
	for _, k := range picks {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
			break
		}
		// Not ended by an interruption: what has been sent is to be known to be done.
		limited, cancel := b.place.within(context.WithoutCancel(ctx))
		d, e := b.one(limited, k)
		cancel()
		if e = unavailable(e); shutdown.ExitCode(e) == shutdown.ExitUnavailable {
			err = fmt.Errorf("letter %d: %w", k.sequence, e)
			break
		}
		switch {
		case errors.Is(e, deadletter.ErrNotFound):
			d, e = deed{result: resultGone}, nil
		case e != nil:
			d.result = resultFailed
		default:
			finished = append(finished, k)
		}
		b.tally.Left--
		b.tally.count(d.result)
		if e != nil {
			bar.clear()
			b.say("letter %d: %s", k.sequence, shown(e))
		}
		if !bar.shown || b.outWidth == 0 {
			if err := b.report(k, d, e); err != nil {
				return finished, err
			}
		}
		bar.add()
	}
	bar.clear()
	if err != nil && ctx.Err() == nil { // what stopped it comes first: how many are left says little without it
		b.say("ackfloor: %s", shown(err))
		err = &coded{shutdown.ExitCode(err), errSaid}
	}
	if len(picks) > 0 {
		b.say("%s%s", b.tally.words(b.past), b.stillReplayed(finished))
	}
	if b.tally.Left > 0 {
		b.say("Run it again to go on%s.", suffixIf(b.verb == "replay", ": no letter is replayed twice"))
	}
	return finished, err
}

// report writes one line about one letter.
func (b *batch) report(k pick, d deed, err error) error {
	if b.json {
		out := deedJSON{Result: d.result, Sequence: k.sequence, Stream: k.stream, Consumer: k.consumer, Subject: k.subject, MessageSequence: k.message,
			ReplaySequence: d.replay, NewLetter: d.again}
		if err != nil {
			out.Error = shown(err)
		}
		return b.print(out)
	}
	_, err = fmt.Fprintf(b.out, "%-16s %d  %s  %s sequence %d  %s\n", strings.ReplaceAll(d.result, "_", " "), k.sequence,
		printable(b.place.whose(k.stream, k.consumer)), printable(k.stream), k.message, printable(k.subject))
	return err
}

// end writes the summary of --json and finds the error that all of it comes to.
func (b *batch) end(err error) error {
	if b.json {
		if e := b.print(b.tally); e != nil {
			return e
		}
	}
	switch {
	case err != nil:
		return err
	case b.tally.Failed+b.tally.FailedAgain > 0:
		return &coded{shutdown.ExitFailed, errSaid}
	case b.tally.Missing > 0:
		return &coded{exitNotFound, errSaid}
	}
	return nil
}
