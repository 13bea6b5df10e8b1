package worker

import (
	"encoding/json"
	"time"
)

// word is what one worker of a consumer tells the others: see others.go. It is JSON, so that a person who listens can read it, with lists of numbers, each the
// difference to the one before it in the list.
type word struct {
	From    string    // the worker
	Created time.Time // of the consumer: another one of the same name has other messages
	Ask     bool      // the others are to tell it what they know
	Last    bool      // it ends, and can't be asked any more
	Forgot  bool      // the server may have forgotten what it knew: a moment ago the connection was lost, or the leader moved
	Settled []fact    // acknowledged or terminated
	Held    []fact
}

// fact is a message of which a worker tells.
type fact struct {
	seq       uint64
	published int64 // ns
	more      int64 // of one that is held, how often the server had delivered it; of one that was settled, how long ago in ms
}

// wordOnWire is a word as it is sent: three numbers for each message.
type wordOnWire struct {
	From    string    `json:"from"`
	Created time.Time `json:"created"`
	Ask     bool      `json:"ask,omitempty"`
	Last    bool      `json:"last,omitempty"`
	Forgot  bool      `json:"forgot,omitempty"`
	Settled []int64   `json:"settled,omitempty"`
	Held    []int64   `json:"held,omitempty"`
}

// wordMost is how many messages one part of a word tells of: some 10 bytes each, 50 at the most.
const wordMost = 1000

// parts returns the word in messages that any server takes. The first asks, if any does.
func (w word) parts() (parts [][]byte) {
	ask, allSettled, allHeld := w.Ask, w.Settled, w.Held
	for {
		settled := allSettled[:min(len(allSettled), wordMost)]
		held := allHeld[:min(len(allHeld), wordMost-len(settled))]
		allSettled, allHeld = allSettled[len(settled):], allHeld[len(held):]
		part, _ := json.Marshal(wordOnWire{w.From, w.Created, ask, w.Last, w.Forgot, listed(settled), listed(held)}) // of such fields nothing fails
		parts = append(parts, part)
		if ask = false; len(allSettled)+len(allHeld) == 0 {
			return parts
		}
	}
}

func listed(facts []fact) []int64 {
	out := make([]int64, 0, 3*len(facts))
	var last fact
	for _, f := range facts {
		out = append(out, int64(f.seq-last.seq), f.published-last.published, f.more-last.more)
		last = f
	}
	return out
}

// readWord reads a part of a word. It returns false for anything else that somebody publishes there.
func readWord(data []byte) (word, bool) {
	var w wordOnWire
	if json.Unmarshal(data, &w) != nil || len(w.Settled)%3+len(w.Held)%3 != 0 {
		return word{}, false
	}
	return word{w.From, w.Created, w.Ask, w.Last, w.Forgot, factsOf(w.Settled), factsOf(w.Held)}, true
}

func factsOf(list []int64) []fact {
	out := make([]fact, 0, len(list)/3)
	var last fact
	for ; len(list) > 0; list = list[3:] {
		last.seq += uint64(list[0])
		last.published += list[1]
		last.more += list[2]
		out = append(out, last)
	}
	return out
}
