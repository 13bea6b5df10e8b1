package deadletter

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Subject is where the letter of a message is kept: dlq.<stream>.<consumer>.<sequence>. A message that has the sequence of an older one, of
// a stream that was deleted and made again, finds that subject taken; its letter has one token more, its publish time in nanoseconds.
func Subject(stream, consumer string, seq uint64) string {
	return "dlq." + stream + "." + consumer + "." + strconv.FormatUint(seq, 10)
}

// ReplaySubject is where the replay of a letter goes: replay.<stream>.<consumer>.<sequence>, with one token more where the letter's subject
// has it.
func ReplaySubject(stream, consumer string, seq uint64) string {
	return "replay." + stream + "." + consumer + "." + strconv.FormatUint(seq, 10)
}

// ReplayFilter is the filter of the consumer that brings a worker its replays: replay.<stream>.<consumer>.>
func ReplayFilter(stream, consumer string) string { return "replay." + stream + "." + consumer + ".>" }

// ReplayConsumer is the name of the durable consumer on the dead-letter stream that brings a worker its replays.
func ReplayConsumer(stream, consumer string) string { return "replay_" + stream + "_" + consumer }

// Subjects are those that the dead-letter stream takes for all consumers of a stream.
func Subjects(stream string) []string {
	return []string{"dlq." + stream + ".>", "replay." + stream + ".>"}
}

// place is what a subject of the dead-letter stream says.
type place struct {
	kind             string // letter, replay or rest
	stream, consumer string
	seq              uint64 // of the message
	born             string // the token that tells a later message of that sequence from the first one, its publish time; "" for the first
}

const (
	letter = "dlq"
	replay = "replay"
	rest   = "tail" // of a message that is too large for one
)

// subject is the inverse of parse.
func (p place) subject() string {
	first := letter
	if p.kind == replay {
		first = replay
	}
	s := first + "." + p.stream + "." + p.consumer + "." + strconv.FormatUint(p.seq, 10)
	if p.kind == rest {
		s += "." + rest
	}
	if p.born != "" {
		s += "." + p.born
	}
	return s
}

// as is the place of the same message's letter, replay or rest.
func (p place) as(kind string) place {
	p.kind = kind
	return p
}

// parse reads a subject. It returns false for one that was not made here.
func parse(subject string) (place, bool) {
	t := strings.Split(subject, ".")
	if len(t) < 4 || len(t) > 6 || (t[0] != letter && t[0] != replay) {
		return place{}, false
	}
	seq, err := strconv.ParseUint(t[3], 10, 64)
	if err != nil || strconv.FormatUint(seq, 10) != t[3] {
		return place{}, false
	}
	p := place{kind: t[0], stream: t[1], consumer: t[2], seq: seq}
	switch {
	case len(t) == 5:
		p.born = t[4]
	case len(t) == 6 && t[0] == letter && t[4] == rest:
		p.kind, p.born = rest, t[5]
	case len(t) == 6:
		return place{}, false
	}
	if p.born != "" {
		if n, err := strconv.ParseInt(p.born, 10, 64); err != nil || strconv.FormatInt(n, 10) != p.born {
			return place{}, false
		}
	}
	return p, len(t) == 4 || p.born != ""
}

// born is the token for a publish time.
func born(published time.Time) string {
	if published.IsZero() {
		return "0" // UnixNano is undefined there
	}
	return strconv.FormatInt(published.UnixNano(), 10)
}

// checkName refuses what is no name of a stream or consumer: it would be another subject than the one that is meant.
func checkName(what, name string) error {
	if name == "" || strings.ContainsAny(name, ".*>/\\ \t\r\n\x00") {
		return fmt.Errorf("deadletter: %q is no name of a %s", name, what)
	}
	return nil
}
