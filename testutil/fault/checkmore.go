package fault

import (
	"fmt"
	"slices"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
)

// checkLetters looks for messages that have two letters, or a letter although they were handled. A letter that was replayed may have been handled since.
func checkLetters(r *Report, e Evidence, c calls) {
	r.Letters = len(e.Letters)
	handled := map[uint64]bool{}
	for _, one := range c.all {
		if one.succeeded() {
			handled[one.Sequence] = true
		}
	}
	type message struct {
		sequence  uint64
		published int64
	}
	seen := map[message]bool{}
	for _, l := range e.Letters {
		m := message{l.MessageSequence, l.Published.UnixNano()}
		if seen[m] {
			r.LettersTwice = append(r.LettersTwice, l.MessageSequence)
		}
		seen[m] = true
		if handled[l.MessageSequence] && (l.State == deadletter.StateOpen || l.State == "") {
			r.LettersHandled = append(r.LettersHandled, l.MessageSequence)
		}
	}
}

// checkFloor looks for an ack floor that went back, and for another consumer in the place of the first.
func checkFloor(r *Report, e Evidence) {
	for i, s := range e.Floor {
		r.Floor = s.Floor
		r.MostPending = max(r.MostPending, s.AckPending)
		if i == 0 {
			continue
		}
		before := e.Floor[i-1]
		if s.Floor < before.Floor {
			r.Regressions = append(r.Regressions, Regression{At: s.At, From: before.Floor, To: s.Floor})
		}
		if !s.Created.Equal(before.Created) {
			r.Recreated++
		}
	}
}

// checkWire compares the settlements with what handlers had returned by then. A message that has its letter already may be acknowledged: a
// server that was killed may deliver it once more.
func checkWire(r *Report, e Evidence, c calls) {
	ready := map[uint64]time.Time{} // by sequence: the first success, or the letter
	note := func(sequence uint64, at time.Time) {
		if first, ok := ready[sequence]; !ok || at.Before(first) {
			ready[sequence] = at
		}
	}
	for _, one := range c.all {
		if one.succeeded() {
			note(one.Sequence, one.end)
		}
	}
	for _, l := range e.Letters {
		note(l.MessageSequence, l.Stored)
	}
	type delivery struct {
		sequence, own uint64
		published     time.Time
	}
	verdicts := map[delivery]string{}
	two := map[delivery]bool{}
	for _, s := range e.Wire {
		r.Settlements[s.Kind]++
		if s.Kind == "progress" || s.Kind == "next" {
			continue
		}
		if at, ok := ready[s.Sequence]; s.Kind == "ack" && (!ok || s.At.Before(at)) {
			r.Early = append(r.Early, s)
		}
		d := delivery{s.Sequence, s.ConsumerSequence, s.Published}
		if s.Kind == "nak" && s.Delay > 0 && verdicts[d] == "" {
			continue // a worker that still holds the message may keep it so: it is a longer lease, as is progress
		}
		if v := verdicts[d]; v != "" && v != s.Kind && !two[d] {
			two[d] = true
			r.TwoVerdicts = append(r.TwoVerdicts, fmt.Sprintf("sequence %d, delivery %d: %s, then %s", s.Sequence, s.ConsumerSequence, v, s.Kind))
		} else if v == "" {
			verdicts[d] = s.Kind
		}
	}
}

// checkUse finds the most of what workers took at once.
func checkUse(r *Report, e Evidence) {
	running := map[string]int{}
	for _, ev := range e.Events {
		if e.Consumer != "" && (ev.Kind == KindBegin || ev.Kind == KindEnd) && ev.Consumer != e.Consumer {
			continue
		}
		switch ev.Kind {
		case KindBegin:
			running[ev.Worker]++
			r.MostSlots = max(r.MostSlots, running[ev.Worker])
		case KindEnd:
			running[ev.Worker]--
		case KindSample:
			r.Samples++
			r.MostHeld = max(r.MostHeld, ev.Held)
			r.MostGoroutines = max(r.MostGoroutines, ev.Goroutines)
			r.MostHeap = max(r.MostHeap, ev.Heap)
			r.MostMemory = max(r.MostMemory, ev.Memory)
		}
	}
}

// checkProgress measures how long it takes from when nothing is broken any more to the next success, as long as there is one before the next fault.
func checkProgress(r *Report, e Evidence) {
	var broken []string
	var healed Event
	events := slices.Clone(e.Events)
	slices.SortStableFunc(events, func(a, b Event) int { return a.At.Compare(b.At) })
	for _, ev := range events {
		switch {
		case ev.Kind == KindFault:
			broken, healed = append(broken, ev.Name), Event{}
		case ev.Kind == KindHeal:
			if i := slices.Index(broken, ev.Name); i >= 0 {
				broken = slices.Delete(broken, i, i+1)
			}
			if len(broken) == 0 {
				healed = ev
			}
		case ev.succeeded() && !healed.At.IsZero():
			r.Heals++
			if took := ev.At.Sub(healed.At); took > r.SlowestHeal {
				r.SlowestHeal, r.SlowestHealOf = took, healed.Name
			}
			healed = Event{}
		}
	}
}
