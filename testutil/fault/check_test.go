package fault

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/deadletter"
	"github.com/nats-io/nats.go"
)

// at is a moment of these tests, in milliseconds.
func at(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }

// called are the two lines of a call of message i by a worker; to is 0 for one that did not end.
func called(worker string, i, from, to int, err string) []Event {
	e := Event{Kind: KindBegin, At: at(from), Worker: worker, Call: uint64(1000*i + from), ID: fmt.Sprint("m", i), Consumer: "D", Sequence: uint64(i)}
	all := []Event{e}
	if e.Kind, e.At, e.Error = KindEnd, at(to), err; to != 0 {
		all = append(all, e)
	}
	return all
}

func join(all ...[]Event) (events []Event) {
	for _, some := range all {
		events = append(events, some...)
	}
	return events
}

func killed(pid, ms int) []Event {
	return []Event{{Kind: KindSignal, Name: "killed", Target: pid, At: at(ms)}}
}

func confirmed(i, ms int) []Event {
	return []Event{{Kind: KindSettled, Name: "ack", Sequence: uint64(i), At: at(ms)}}
}

func TestCheckKnowsWhoHeld(t *testing.T) {
	for _, row := range []struct {
		name              string
		events            []Event
		again, notHeld    int
		confirmed, before int // of those that were handled again
	}{
		{"killed in the call", join(called("7.1", 1, 10, 0, ""), killed(7, 20), called("8.1", 1, 30, 40, "")), 1, 0, 0, 0},
		{"killed behind it, before the ack", join(called("7.1", 1, 10, 15, ""), killed(7, 20), called("8.1", 1, 30, 40, "")), 1, 0, 0, 1},
		{"not killed", join(called("7.1", 1, 10, 15, ""), called("8.1", 1, 30, 40, "")), 1, 1, 0, 1},
		{"killed as it began", join(killed(7, 5), called("7.1", 1, 10, 0, ""), called("8.1", 1, 30, 40, "")), 1, 0, 0, 0},
		{"another one killed", join(called("7.1", 1, 10, 0, ""), killed(9, 20), called("8.1", 1, 30, 40, "")), 1, 1, 0, 0},
		{"failed", join(called("7.1", 1, 10, 15, "failed: not now"), called("7.1", 1, 30, 40, "")), 0, 0, 0, 0},
		{"failed while another had it", join(called("7.1", 1, 10, 35, "failed: not now"), called("8.1", 1, 30, 40, "")), 1, 1, 0, 0},
		{"confirmed", join(called("7.1", 1, 10, 15, ""), confirmed(1, 20), killed(7, 25), called("8.1", 1, 30, 40, "")), 1, 1, 1, 0},
		{"confirmed behind it", join(called("7.1", 1, 10, 15, ""), called("8.1", 1, 30, 40, ""), confirmed(1, 35)), 1, 1, 0, 1},
	} {
		r := Check(Evidence{Events: row.events, Consumer: "D"})
		confirmed, before := r.HandledAgain()
		if len(r.Again) != row.again || len(r.NotHeld()) != row.notHeld || confirmed != row.confirmed || before != row.before {
			t.Errorf("%s: %+v, not held %d, confirmed %d, before %d", row.name, r.Again, len(r.NotHeld()), confirmed, before)
		}
	}
	r := Check(Evidence{Events: join(called("7.1", 1, 10, 15, ""), called("7.1", 1, 30, 40, "")), Floor: []FloorSample{{At: at(20), Floor: 1}}})
	if confirmed, _ := r.HandledAgain(); confirmed != 1 {
		t.Error("the floor does not tell what was confirmed")
	}
	for waiting, want := range map[time.Duration]int{5 * time.Millisecond: 1, 15 * time.Millisecond: 0} {
		r := Check(Evidence{Waiting: waiting, Events: join(called("7.1", 1, 10, 15, ""), confirmed(1, 20), called("8.1", 1, 30, 40, ""))})
		if confirmed, _ := r.HandledAgain(); confirmed != want {
			t.Errorf("of one that may have waited for %v: %d confirmed", waiting, confirmed)
		}
	}
	if r := Check(Evidence{Events: called("7.1", 1, 10, 15, ""), Consumer: "E"}); r.Calls != 0 || r.MostSlots != 0 {
		t.Error("the calls of another consumer count")
	}
}

func TestCheckComparesWithTheLedger(t *testing.T) {
	entry := func(i int, confirmed bool) Entry {
		return Entry{Number: i, ID: fmt.Sprint("m", i), Confirmed: confirmed, Sequence: uint64(i)}
	}
	letter := &deadletter.Letter{MessageSequence: 5, Header: nats.Header{"Nats-Msg-Id": {"m5"}}}
	r := Check(Evidence{Letters: []*deadletter.Letter{letter},
		Events: join(called("7.1", 2, 10, 20, ""), called("7.1", 4, 10, 20, ""), called("7.1", 6, 10, 20, "failed: no")),
		Ledger: []Entry{entry(1, true), entry(2, true), entry(3, true), entry(4, false), entry(5, true), entry(6, true), entry(7, false)}})
	if r.Published != 7 || r.Confirmed != 5 || r.Recovered != 1 || r.Unknown != 1 || r.Handled != 2 || len(r.Unexpected) != 0 {
		t.Errorf("%+v", r)
	}
	if len(r.Lost.Prefix) != 1 || len(r.Lost.Middle) != 1 || len(r.Lost.Postfix) != 1 ||
		r.Lost.Prefix[0].ID != "m1" || r.Lost.Middle[0].ID != "m3" || r.Lost.Postfix[0].ID != "m6" {
		t.Errorf("lost %+v", r.Lost)
	}
	if words := r.Broken(NoSkip); len(words) != 1 || !strings.Contains(words[0], "3 lost") {
		t.Errorf("it says %q", words)
	}
	stored := Stored("EVENTS", 2)
	if stored[1].ID != "EVENTS:2" || stored[1].Sequence != 2 || !stored[1].Confirmed {
		t.Errorf("stored are %+v", stored)
	}
}

func TestCheckReadsLetters(t *testing.T) {
	letter := func(sequence uint64, published int, state deadletter.State) *deadletter.Letter {
		return &deadletter.Letter{Stream: "EVENTS", MessageSequence: sequence, Published: at(published), State: state}
	}
	r := Check(Evidence{Events: join(called("7.1", 1, 10, 20, ""), called("7.1", 3, 10, 20, "")), Letters: []*deadletter.Letter{letter(1, 1, deadletter.StateOpen),
		letter(2, 1, ""), letter(2, 1, ""), letter(2, 9, ""), letter(3, 1, deadletter.StateHandled)}})
	if fmt.Sprint(r.LettersTwice, r.LettersHandled, r.Letters) != "[2] [1] 5" {
		t.Errorf("twice %v, handled %v, all %d", r.LettersTwice, r.LettersHandled, r.Letters)
	}
	if len(r.Broken(LettersOnce)) != 1 {
		t.Error("LettersOnce holds")
	}
}

func TestCheckMeasuresProgress(t *testing.T) {
	fault := func(kind, name string, ms int) []Event { return []Event{{Kind: kind, Name: name, At: at(ms)}} }
	r := Check(Evidence{Events: join(
		fault(KindFault, "a", 0), fault(KindHeal, "a", 100), called("7.1", 1, 110, 150, ""), // 50 ms
		fault(KindFault, "a", 200), fault(KindFault, "b", 210), fault(KindHeal, "a", 300), called("7.1", 2, 300, 350, ""),
		fault(KindHeal, "b", 400), called("7.1", 3, 450, 600, ""), // 200 ms, behind b
		fault(KindFault, "c", 700), fault(KindHeal, "c", 800), fault(KindFault, "c", 2000), // nothing came
	)})
	if r.Heals != 2 || r.SlowestHeal != 200*time.Millisecond || r.SlowestHealOf != "b" {
		t.Errorf("%d heals, the slowest %v of %s", r.Heals, r.SlowestHeal, r.SlowestHealOf)
	}
	if len(r.Broken(Progress(100*time.Millisecond))) != 1 || len(r.Broken(Progress(time.Second))) != 0 {
		t.Error("Progress says something else")
	}
	if !strings.Contains(r.String(), "progress: 200ms") {
		t.Errorf("it reads:\n%s", r)
	}
}

func TestCheckReadsTheWire(t *testing.T) {
	wire := func(kind string, ms int, delay time.Duration) Settlement {
		return Settlement{Kind: kind, At: at(ms), Sequence: 1, ConsumerSequence: 9, Delay: delay}
	}
	for _, row := range []struct {
		name       string
		wire       []Settlement
		early, two int
	}{
		{"an ack", []Settlement{wire("progress", 5, 0), wire("ack", 25, 0), wire("ack", 35, 0)}, 0, 0},
		{"an ack before", []Settlement{wire("ack", 15, 0)}, 1, 0},
		{"a lease that a nak makes longer", []Settlement{wire("nak", 15, time.Second), wire("ack", 25, 0)}, 0, 0},
		{"a nak, then an ack", []Settlement{wire("nak", 21, 0), wire("ack", 25, 0), wire("ack", 26, 0)}, 0, 1},
		{"an ack, then a nak", []Settlement{wire("ack", 21, 0), wire("nak", 25, time.Second)}, 0, 1},
		{"an ack, then a term", []Settlement{wire("ack", 21, 0), wire("term", 25, 0)}, 0, 1},
	} {
		r := Check(Evidence{Events: called("7.1", 1, 10, 20, ""), Wire: row.wire})
		if len(r.Early) != row.early || len(r.TwoVerdicts) != row.two {
			t.Errorf("%s: %d early, two verdicts %v", row.name, len(r.Early), r.TwoVerdicts)
		}
	}
}

// What was given up may be acknowledged when it is delivered again, once its letter is stored.
func TestCheckKnowsAcksOfLetters(t *testing.T) {
	for stored, early := range map[int]int{15: 0, 30: 1} {
		r := Check(Evidence{Events: called("7.1", 1, 10, 14, "failed: never"), Wire: []Settlement{{Kind: "ack", At: at(20), Sequence: 1}},
			Letters: []*deadletter.Letter{{MessageSequence: 1, Stored: at(stored)}}})
		if len(r.Early) != early {
			t.Errorf("stored at %d: %d early", stored, len(r.Early))
		}
	}
}

func TestCheckLooksAtKeys(t *testing.T) {
	keyed := func(key string, events []Event) []Event {
		for i := range events {
			events[i].Key = key
		}
		return events
	}
	r := Check(Evidence{Events: join(keyed("a", called("7.1", 2, 10, 20, "")), keyed("a", called("7.1", 1, 30, 40, "")), keyed("b", called("7.1", 3, 15, 50, "")),
		keyed("b", called("8.1", 4, 45, 60, "")), keyed("a", called("8.1", 9, 1, 0, "")))})
	if len(r.OutOfOrder) != 1 || len(r.Together) != 1 || len(r.Broken(KeysInOrder)) != 1 {
		t.Errorf("out of order %v, together %v", r.OutOfOrder, r.Together)
	}
}

func TestSettlementsAreRead(t *testing.T) {
	const old, new = "$JS.ACK.S.C.2.17.30.1700000000000000001.5", "$JS.ACK._.hash.S.C.2.17.30.1700000000000000001.5.random"
	for _, row := range []struct {
		subject, body, kind string
		delay               time.Duration
		reason              string
	}{
		{old, "", "ack", 0, ""}, {new, "+ACK", "ack", 0, ""}, {"$JS.ACK.d.h.S.C.2.17.30.1700000000000000001.5", "+WPI", "progress", 0, ""},
		{old, "-NAK", "nak", 0, ""},
		{old, `-NAK {"delay":5000000}`, "nak", 5 * time.Millisecond, ""}, {new, "+TERM it is bad", "term", 0, "it is bad"}, {old, "+NXT", "next", 0, ""},
	} {
		s, ok := readSettlement(row.subject, row.body)
		if !ok || s.Kind != row.kind || s.Delay != row.delay || s.Reason != row.reason || s.Deliveries != 2 || s.Sequence != 17 || s.ConsumerSequence != 30 ||
			s.Published.UnixNano() != 1700000000000000001 {
			t.Errorf("%s %q: %+v, %v", row.subject, row.body, s, ok)
		}
	}
	for _, odd := range [][2]string{{"$JS.ACK.S.C.2.17", "+ACK"}, {"$JS.ACK.S.C.2.x.30.1.5", "+ACK"}, {old, "hello"}, {"$JS.ACK.S.C.2.17.30.1.5.6", ""}} {
		if s, ok := readSettlement(odd[0], odd[1]); ok {
			t.Errorf("%q is read as %+v", odd, s)
		}
	}
}

// A line that is being written is read when it is whole; one that makes no sense is an error.
func TestJournalOfTornLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	other, err := j.Again()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	if err := other.write(Event{Kind: KindFault, Name: "x"}); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	for i, half := range []string{`{"kind":"beg`, `in","worker":"12.3"}` + "\n"} {
		if _, err := f.WriteString(half); err != nil {
			t.Fatal(err)
		}
		if events, err := j.Events(); err != nil || len(events) != 1+i {
			t.Errorf("behind %q: %+v, %v", half, events, err)
		}
	}
	events, _ := j.Events()
	if events[0].Process() != os.Getpid() || events[1].Process() != 12 || events[0].Worker == j.worker {
		t.Errorf("%+v", events)
	}
	if _, err := f.WriteString("{nonsense}\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Events(); err == nil || !strings.Contains(err.Error(), "{nonsense}") {
		t.Errorf("it says %v", err)
	}
}
