package fault

import (
	"fmt"
	"time"
)

// Invariant is something that has to hold. Those below are what Ackfloor's workers promise; docs/howto-faults.md says under which faults.
type Invariant struct {
	Name   string
	Broken func(Report) string // in words; "" while it holds
}

// The invariants without a number.
var (
	NoSkip = Invariant{"no message is skipped", func(r Report) string {
		return count(r.Lost.Len(), "lost", append(append(append([]Entry(nil), r.Lost.Prefix...), r.Lost.Middle...), r.Lost.Postfix...))
	}}
	NothingUnexpected = Invariant{"nothing is handled that was not published", func(r Report) string {
		return count(len(r.Unexpected), "unexpected", r.Unexpected)
	}}
	NothingAgain = Invariant{"nothing is handed over twice", func(r Report) string {
		return count(len(r.Again), "called again", r.Again)
	}}
	OnlyHeldAgain = Invariant{"only what a killed worker held is seen again", func(r Report) string {
		return count(len(r.NotHeld()), "called again", r.NotHeld())
	}}
	NothingConfirmedAgain = Invariant{"nothing that was confirmed is handled again", func(r Report) string {
		var all []Again
		for _, a := range r.Again {
			if a.Confirmed {
				all = append(all, a)
			}
		}
		return count(len(all), "called again", all)
	}}
	FloorKept = Invariant{"the ack floor never goes back", func(r Report) string {
		return count(len(r.Regressions)+r.Recreated, "back", r.Regressions)
	}}
	NoEarlyAck = Invariant{"nothing is acknowledged before its handler has returned nil", func(r Report) string {
		return count(len(r.Early), "acknowledged early", r.Early)
	}}
	OneVerdict = Invariant{"a delivery has one verdict", func(r Report) string {
		return count(len(r.TwoVerdicts), "two verdicts", r.TwoVerdicts)
	}}
	LettersOnce = Invariant{"what is given up is in the dead letters, once", func(r Report) string {
		return count(len(r.LettersTwice)+len(r.LettersHandled), "twice, or handled too", append(append([]uint64(nil), r.LettersTwice...), r.LettersHandled...))
	}}
	KeysInOrder = Invariant{"the messages of a key are handled in their order, one at a time", func(r Report) string {
		return count(len(r.OutOfOrder)+len(r.Together), "out of order, or together", append(append([]string(nil), r.OutOfOrder...), r.Together...))
	}}
)

// Slots is the invariant that no worker runs more than n handlers at once.
func Slots(n int) Invariant {
	return Invariant{"never more than the slots", func(r Report) string {
		if r.MostSlots <= n {
			return ""
		}
		return fmt.Sprintf("%d at once of %d", r.MostSlots, n)
	}}
}

// Bounded is the invariant that no worker has more than so many goroutines, nor more bytes of memory from the system. Without any sample it does not hold.
func Bounded(goroutines int, memory uint64) Invariant {
	return Invariant{"goroutines and memory are bounded", func(r Report) string {
		if r.Samples > 0 && r.MostGoroutines <= goroutines && r.MostMemory <= memory {
			return ""
		}
		return fmt.Sprintf("%d goroutines of %d, %d bytes of %d, in %d samples", r.MostGoroutines, goroutines, r.MostMemory, memory, r.Samples)
	}}
}

// Progress is the invariant that a message is handled within d after everything is whole again.
func Progress(d time.Duration) Invariant {
	return Invariant{"it goes on after a fault", func(r Report) string {
		if r.SlowestHeal <= d {
			return ""
		}
		return fmt.Sprintf("%v after %s, %v are allowed", r.SlowestHeal, r.SlowestHealOf, d)
	}}
}

// count says how many, and shows the first few; "" for none.
func count[T any](n int, what string, all []T) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s: %+v", n, what, all[:min(len(all), 8)])
}
