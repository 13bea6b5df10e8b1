package fault

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ackfloor/ackfloor/deadletter"
)

// Evidence is what was seen of one consumer. What is left empty is not judged.
type Evidence struct {
	Consumer string  // whose calls count; "" takes all that the journal has
	Events   []Event // Journal.Events
	Ledger   []Entry // Ledger.Entries, or Stored
	Letters  []*deadletter.Letter
	Floor    []FloorSample // Floor.Samples
	Wire     []Settlement  // Tap.Settlements

	// Waiting is how long a message may have waited in its worker before it was handled. A call that begins so soon after the confirmation of an
	// earlier ack is not taken for one of a message that had been confirmed: the server may have handed it over before. 0: it does not wait.
	Waiting time.Duration
}

// Stored is the ledger of n messages that were published without a Ledger and without Nats-Msg-Id, and have the sequences 1 to n of the stream,
// as those of testutil's Events.
func Stored(stream string, n int) []Entry {
	var all []Entry
	for i := range n {
		all = append(all, Entry{Number: i, ID: stream + ":" + strconv.Itoa(i+1), Confirmed: true, Sequence: uint64(i + 1)})
	}
	return all
}

// call is one call of a handler.
type call struct {
	Event           // its beginning
	end   time.Time // zero where it has not ended
	err   string
	order int // of its end among all lines, or else of its beginning
}

func (c call) succeeded() bool { return !c.end.IsZero() && c.err == "" }

// failed tells that the call has ended, and not well: that the message is handled again is as it should be.
func (c call) failed() bool { return !c.end.IsZero() && c.err != "" }

// calls are the calls in the order in which they began, and what is known beside.
type calls struct {
	all     []call
	byID    map[string][]int // the calls of a message, in the order in which they began
	acked   map[uint64]time.Time
	killed  map[int]bool    // by process id: it was sent SIGKILL
	letters map[string]bool // by ID
}

func readCalls(e Evidence) calls {
	c := calls{byID: map[string][]int{}, acked: map[uint64]time.Time{}, killed: map[int]bool{}, letters: map[string]bool{}}
	open := map[string]int{}
	for i, ev := range e.Events {
		switch ev.Kind {
		case KindBegin:
			if e.Consumer != "" && ev.Consumer != e.Consumer {
				continue
			}
			open[callName(ev)] = len(c.all)
			c.byID[ev.ID] = append(c.byID[ev.ID], len(c.all))
			c.all = append(c.all, call{Event: ev, order: i})
		case KindEnd:
			if at, ok := open[callName(ev)]; ok {
				c.all[at].end, c.all[at].err, c.all[at].order = ev.At, ev.Error, i
			}
		case KindSettled:
			if first, ok := c.acked[ev.Sequence]; ev.Name == "ack" && (!ok || ev.At.Before(first)) {
				c.acked[ev.Sequence] = ev.At
			}
		case KindSignal:
			if ev.Name == "killed" {
				c.killed[ev.Target] = true
			}
		}
	}
	for _, l := range e.Letters {
		c.letters[letterID(l)] = true
	}
	return c
}

// letterID is ackfloor.Message.ID of the letter's message.
func letterID(l *deadletter.Letter) string {
	if id := l.Header.Get(nats.MsgIdHdr); id != "" {
		return id
	}
	return l.Stream + ":" + strconv.FormatUint(l.MessageSequence, 10)
}

func callName(e Event) string { return fmt.Sprintf("%s/%d", e.Worker, e.Call) }

// Check tells what became of each message.
func Check(e Evidence) Report {
	c := readCalls(e)
	r := Report{Calls: len(c.all), Settlements: map[string]int{}}
	checkLedger(&r, e, c)
	checkAgain(&r, e, c)
	checkOrder(&r, c)
	checkLetters(&r, e, c)
	checkFloor(&r, e)
	checkWire(&r, e, c)
	checkUse(&r, e)
	checkProgress(&r, e)
	return r
}

// checkLedger compares what was published with what was handled.
func checkLedger(r *Report, e Evidence, c calls) {
	handled := func(id string) bool {
		return slices.ContainsFunc(c.byID[id], func(i int) bool { return c.all[i].succeeded() })
	}
	done := func(e Entry) bool { return handled(e.ID) || c.letters[e.ID] }
	published := map[string]bool{}
	var confirmed []Entry
	for _, entry := range e.Ledger {
		published[entry.ID] = true
		switch {
		case entry.Confirmed:
			confirmed = append(confirmed, entry)
		case done(entry):
			r.Recovered++
		default:
			r.Unknown++
		}
	}
	for id := range c.byID {
		if handled(id) {
			r.Handled++
		}
		if len(e.Ledger) > 0 && !published[id] {
			r.Unexpected = append(r.Unexpected, id)
		}
	}
	slices.Sort(r.Unexpected)
	r.Published, r.Confirmed = len(e.Ledger), len(confirmed)
	slices.SortFunc(confirmed, func(a, b Entry) int { return cmp.Compare(a.Sequence, b.Sequence) })
	first := slices.IndexFunc(confirmed, done)
	last := -1
	for i, e := range confirmed {
		if done(e) {
			last = i
		}
	}
	for i, e := range confirmed {
		switch {
		case done(e):
		case i > last:
			r.Lost.Postfix = append(r.Lost.Postfix, e)
		case i < first:
			r.Lost.Prefix = append(r.Lost.Prefix, e)
		default:
			r.Lost.Middle = append(r.Lost.Middle, e)
		}
	}
}

// checkAgain looks for messages whose handler was called although an earlier call had not failed.
func checkAgain(r *Report, e Evidence, c calls) {
	for _, all := range c.byID {
		for n, i := range all {
			if n == 0 {
				continue
			}
			// The last call before this one that had not failed by then.
			before := -1
			for _, j := range all[:n] {
				if !c.all[j].failed() || c.all[j].end.After(c.all[i].At) {
					before = j
				}
			}
			if before < 0 {
				continue
			}
			first, second := c.all[before], c.all[i]
			a := Again{ID: first.ID, Sequence: first.Sequence, First: first.At, Second: second.At, Workers: [2]string{first.Worker, second.Worker},
				Succeeded: first.succeeded() && second.succeeded()}
			acked, known := c.acked[first.Sequence]
			handed := second.At.Add(-e.Waiting)
			a.Confirmed = known && acked.Before(handed) || floorBefore(e.Floor, first.Sequence, handed)
			a.HeldByKilled = c.killed[first.Process()] && !a.Confirmed
			r.Again = append(r.Again, a)
		}
	}
	slices.SortFunc(r.Again, func(a, b Again) int { return a.Second.Compare(b.Second) })
}

// floorBefore tells that the ack floor was seen at the sequence, or beyond, before that time.
func floorBefore(samples []FloorSample, sequence uint64, at time.Time) bool {
	return slices.ContainsFunc(samples, func(s FloorSample) bool { return s.Floor >= sequence && s.At.Before(at) })
}

// checkOrder looks at the messages that have a key.
func checkOrder(r *Report, c calls) {
	ends := slices.Clone(c.all)
	slices.SortFunc(ends, func(a, b call) int { return a.order - b.order })
	highest, seen := map[string]uint64{}, map[string]bool{}
	var keyed []call
	for _, one := range ends {
		if one.Key == "" || one.end.IsZero() {
			continue
		}
		keyed = append(keyed, one)
		if seen[one.ID] || !one.succeeded() {
			continue
		}
		seen[one.ID] = true
		if one.Sequence < highest[one.Key] {
			r.OutOfOrder = append(r.OutOfOrder, fmt.Sprintf("%s: sequence %d behind %d", one.Key, one.Sequence, highest[one.Key]))
		}
		highest[one.Key] = max(highest[one.Key], one.Sequence)
	}
	slices.SortStableFunc(keyed, func(a, b call) int { return a.At.Compare(b.At) })
	last := map[string]call{} // of each key, the call that ends last
	for _, one := range keyed {
		if l, ok := last[one.Key]; ok && one.At.Before(l.end) && one.ID != l.ID {
			r.Together = append(r.Together, fmt.Sprintf("%s: sequences %d and %d", one.Key, l.Sequence, one.Sequence))
		}
		if one.end.After(last[one.Key].end) {
			last[one.Key] = one
		}
	}
}
