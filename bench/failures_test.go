package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ackfloor/ackfloor/deadletter"
)

// asPlanned is a run in which every message had its fate, and its dead letters.
func asPlanned(n int) (run, []*deadletter.Letter) {
	r := run{report: report{Calls: make([]byte, n), Done: make([]byte, n)}}
	var letters []*deadletter.Letter
	for i := range n {
		f := fateOf(uint64(i+1), true)
		r.Calls[i] = byte(f.calls())
		if f.good() {
			r.Done[i] = 1
			continue
		}
		letters = append(letters, &deadletter.Letter{MessageSequence: uint64(i + 1), Reason: f.reason(), Attempts: f.calls()})
	}
	return r, letters
}

// TestFatesShares: the shares are those that the table's title says.
func TestFatesShares(t *testing.T) {
	const n = 100_000
	var got [panics + 1]int
	for i := range n {
		got[fateOf(uint64(i+1), true)]++
		if f := fateOf(uint64(i+1), false); f != succeeds {
			t.Fatalf("sequence %d fails in a clean run: %v", i+1, f)
		}
	}
	for f, want := range map[fate]int{failsOnce: n * 25 / 1000, failsTwice: n * 25 / 1000, isPermanent: n / 100, panics: n / 1000} {
		if d := got[f] - want; d < -want/5 || d > want/5 {
			t.Errorf("fate %d: %d of %d, want about %d", f, got[f], n, want)
		}
	}
}

// TestCountFindsFaults: each fault of a worker is found, as what it is and as nothing else.
func TestCountFindsFaults(t *testing.T) {
	const n = 2000
	of := func(want fate) int { // the place of a message with that fate
		for i := range n {
			if fateOf(uint64(i+1), true) == want {
				return i
			}
		}
		t.Fatalf("no message has fate %d", want)
		return 0
	}
	without := func(ls []*deadletter.Letter, place int) (out []*deadletter.Letter) {
		for _, l := range ls {
			if l.MessageSequence != uint64(place+1) {
				out = append(out, l)
			}
		}
		return out
	}
	for _, c := range []struct {
		name string
		do   func(r *run, ls []*deadletter.Letter) []*deadletter.Letter
		want fates // of these, what is not 0 in a faultless run is left out
	}{
		{"none", func(_ *run, ls []*deadletter.Letter) []*deadletter.Letter { return ls }, fates{}},
		{"no letter", func(_ *run, ls []*deadletter.Letter) []*deadletter.Letter { return without(ls, of(isPermanent)) }, fates{lost: 1}},
		{"acked unhandled", func(r *run, ls []*deadletter.Letter) []*deadletter.Letter {
			r.Calls[of(failsTwice)], r.Done[of(failsTwice)] = 1, 0
			return ls
		}, fates{lost: 1, strayed: 1, attempts: 1}},
		{"handled again", func(r *run, ls []*deadletter.Letter) []*deadletter.Letter {
			r.Calls[of(succeeds)], r.Done[of(succeeds)] = 2, 2
			return ls
		}, fates{again: 1, attempts: 1}},
		{"handled and dead", func(_ *run, ls []*deadletter.Letter) []*deadletter.Letter {
			return append(ls, &deadletter.Letter{MessageSequence: uint64(of(failsOnce) + 1), Reason: deadletter.ReasonExhausted, Attempts: 2})
		}, fates{both: 1, strayed: 1}},
		{"dead twice", func(_ *run, ls []*deadletter.Letter) []*deadletter.Letter { return append(ls, ls[0]) }, fates{twice: 1}},
		{"another reason", func(_ *run, ls []*deadletter.Letter) []*deadletter.Letter {
			ls[0].Reason = deadletter.ReasonCrash
			return ls
		}, fates{strayed: 1}},
		{"a letter of nothing", func(_ *run, ls []*deadletter.Letter) []*deadletter.Letter {
			return append(ls, &deadletter.Letter{MessageSequence: n + 1})
		}, fates{strayed: 1}},
		{"attempts in the letter", func(_ *run, ls []*deadletter.Letter) []*deadletter.Letter {
			ls[0].Attempts++
			return ls
		}, fates{attempts: 1}},
		{"attempt in the call", func(r *run, ls []*deadletter.Letter) []*deadletter.Letter {
			r.WrongAttempts = 1
			return ls
		}, fates{attempts: 1}},
	} {
		r, letters := asPlanned(n)
		got := count(r, c.do(&r, letters), true)
		got.good, got.dead, got.calls = 0, 0, 0
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestFaultFailsRun: a fault of one round is in the table, and ends the run with an error.
func TestFaultFailsRun(t *testing.T) {
	var out bytes.Buffer
	w := newTable(&out)
	opt := options{works: []string{"none"}, failuresN: 2000, failuresRounds: 2}
	r, letters := asPlanned(2000)
	good := r
	good.fates = count(r, letters, true)
	bad := r
	bad.fates = count(r, letters[1:], true)
	failuresTable(w, opt, map[string][]run{"none-clean": {good, good}, "none-failing": {good, bad}})
	if err := w.err(); err == nil || !strings.Contains(err.Error(), "none-failing") || !strings.Contains(err.Error(), "lost 1,") {
		t.Errorf("error %v", err)
	}
	w = newTable(&out)
	failuresTable(w, opt, map[string][]run{"none-clean": {good, good}, "none-failing": {good, good}})
	if err := w.err(); err != nil {
		t.Error(err)
	}
}
