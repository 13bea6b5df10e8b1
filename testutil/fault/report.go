package fault

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// Report is what Check found. Where there are many, String shows the first few of a list.
type Report struct {
	Published int // messages that the ledger has
	Confirmed int // of these, those that the server has confirmed
	Recovered int // of the others, those that were handled, or became letters, all the same
	Unknown   int // and those of which nothing was seen
	Lost      Lost

	Calls      int      // of handlers
	Handled    int      // different messages for which a handler returned nil
	Unexpected []string // ids of messages that were handled and that the ledger does not have
	Again      []Again  // calls for a message of which an earlier call had not failed

	OutOfOrder []string // messages that were handled behind a later one of their key
	Together   []string // messages of one key that were handled at the same time

	Letters        int
	LettersTwice   []uint64 // sequences of messages with two letters
	LettersHandled []uint64 // sequences of messages with a letter that were handled

	Floor       uint64       // the ack floor, last
	Regressions []Regression // it went back
	Recreated   int          // times that there was another consumer of the same name
	MostPending int          // messages that were delivered and not settled, at most

	Settlements map[string]int // on the wire, by kind
	Early       []Settlement   // acks on the wire before a handler had returned nil
	TwoVerdicts []string       // deliveries of which two different things were said. A nak with a delay is none where something else follows it

	Samples        int    // of what follows, but for MostSlots
	MostSlots      int    // handlers of one worker that ran at once
	MostHeld       int    // messages that one worker held
	MostGoroutines int    // of one worker
	MostHeap       uint64 // bytes of objects in one worker
	MostMemory     uint64 // bytes that one worker had from the system

	Heals         int           // times that everything was whole again and a message was handled before the next fault
	SlowestHeal   time.Duration // the longest time from one to the other
	SlowestHealOf string        // the fault that was over last
	Faults        Counts        // only from a Trial
	Seed          uint64        // only from a Trial
}

// Lost are messages that the server has confirmed, and that were neither handled nor became letters, in the order of the stream.
type Lost struct {
	Prefix  []Entry // before the first that was
	Middle  []Entry
	Postfix []Entry // behind the last that was
}

// Len is how many messages are lost.
func (l Lost) Len() int { return len(l.Prefix) + len(l.Middle) + len(l.Postfix) }

// Again is a call for a message of which an earlier call had not failed.
type Again struct {
	ID            string
	Sequence      uint64
	First, Second time.Time // when the two calls began
	Workers       [2]string // of the two, as in Event
	Succeeded     bool      // both returned nil: the message was handled again. Else the first never ended
	Confirmed     bool      // the server had confirmed the ack before the second call: see Evidence.Waiting
	HeldByKilled  bool      // the first worker was killed, and its ack, if it sent one, was not confirmed
}

// Regression is an ack floor that went back.
type Regression struct {
	At       time.Time
	From, To uint64
}

// HandledAgain counts the messages for which a handler returned nil a second time: after the first ack was confirmed, and before.
func (r Report) HandledAgain() (confirmed, before int) {
	for _, a := range r.Again {
		switch {
		case !a.Succeeded:
		case a.Confirmed:
			confirmed++
		default:
			before++
		}
	}
	return confirmed, before
}

// NotHeld are the calls for a message that no worker which was killed had held.
func (r Report) NotHeld() []Again {
	return slices.DeleteFunc(slices.Clone(r.Again), func(a Again) bool { return a.HeldByKilled })
}

// String prints the report, a line a subject.
func (r Report) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	confirmed, before := r.HandledAgain()
	if r.Seed != 0 || r.Faults != nil {
		line("seed %d: %v", r.Seed, r.Faults)
	}
	line("published: %d, confirmed %d, recovered %d, unknown %d", r.Published, r.Confirmed, r.Recovered, r.Unknown)
	line("lost: %d (prefix %d, middle %d, postfix %d); unexpected: %d", r.Lost.Len(), len(r.Lost.Prefix), len(r.Lost.Middle), len(r.Lost.Postfix), len(r.Unexpected))
	line("handled: %d in %d calls; handled again: %d after the ack was confirmed, %d before; called again: %d, of these %d not held by a worker that was killed",
		r.Handled, r.Calls, confirmed, before, len(r.Again), len(r.NotHeld()))
	line("order of keys: %d out of order, %d at the same time", len(r.OutOfOrder), len(r.Together))
	line("dead letters: %d, twice %d, handled too %d", r.Letters, len(r.LettersTwice), len(r.LettersHandled))
	line("ack floor: %d, went back %d times, consumer made again %d times; ack pending at most %d", r.Floor, len(r.Regressions), r.Recreated, r.MostPending)
	var said []string
	for _, kind := range slices.Sorted(maps.Keys(r.Settlements)) {
		said = append(said, fmt.Sprintf("%s %d", kind, r.Settlements[kind]))
	}
	line("on the wire: %s; acks before the handler returned nil: %d; deliveries with two verdicts: %d", list(said, "nothing"), len(r.Early), len(r.TwoVerdicts))
	line("at most, of one worker: %d slots, %d held, %d goroutines, heap %.1f MB, memory %.1f MB (%d samples)", r.MostSlots, r.MostHeld, r.MostGoroutines,
		float64(r.MostHeap)/1e6, float64(r.MostMemory)/1e6, r.Samples)
	if r.Heals > 0 {
		line("progress: %v at most from the end of a fault to the next message (%s), of %d", r.SlowestHeal.Round(time.Millisecond), r.SlowestHealOf, r.Heals)
	}
	return b.String()
}

func list(words []string, none string) string {
	if len(words) == 0 {
		return none
	}
	return strings.Join(words, ", ")
}

// Require fails the test, with the whole report, for each invariant that does not hold.
func (r Report) Require(t testing.TB, invariants ...Invariant) {
	t.Helper()
	for _, words := range r.Broken(invariants...) {
		t.Errorf("%s\n%s", words, r)
	}
}

// Broken tells which invariants do not hold, in a sentence each.
func (r Report) Broken(invariants ...Invariant) []string {
	var all []string
	for _, i := range invariants {
		if words := i.Broken(r); words != "" {
			all = append(all, i.Name+": "+words)
		}
	}
	return all
}
