package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Kinds of an Event.
const (
	KindBegin   = "begin"   // a handler was called
	KindEnd     = "end"     // it has returned; without an Error it returned nil
	KindSettled = "settled" // the server has confirmed a settlement: Name is ack, nak or term
	KindSample  = "sample"  // what a worker holds and takes
	KindSignal  = "signal"  // a process was sent the signal Name; Target is its id
	KindFault   = "fault"   // the fault Name begins
	KindHeal    = "heal"    // the fault Name is over
)

// Event is one line of a Journal, as JSON. Which fields are set depends on Kind.
type Event struct {
	Kind   string    `json:"kind"`
	At     time.Time `json:"at"`
	Worker string    `json:"worker"`           // who wrote the line: its process id, a dot, and the number of the Journal in that process
	Target int       `json:"target,omitempty"` // signal: the process id
	Name   string    `json:"name,omitempty"`   // of the signal, the settlement, the fault

	Call     uint64 `json:"call,omitempty"` // begin and end: the same number in the two of one call, of one worker
	ID       string `json:"id,omitempty"`   // of the message: ackfloor.Message.ID
	Stream   string `json:"stream,omitempty"`
	Consumer string `json:"consumer,omitempty"`
	Sequence uint64 `json:"seq,omitempty"` // in the stream; settled too
	Attempt  int    `json:"attempt,omitempty"`
	Subject  string `json:"subject,omitempty"`
	Key      string `json:"key,omitempty"`
	Error    string `json:"error,omitempty"` // end: what the handler returned

	Goroutines int    `json:"goroutines,omitempty"` // sample
	Heap       uint64 `json:"heap,omitempty"`       // sample: bytes of objects, live ones and those not yet swept
	Memory     uint64 `json:"memory,omitempty"`     // sample: bytes that the Go runtime has from the system
	Held       int    `json:"held,omitempty"`       // sample: messages that the Runner holds
}

// Process is the id of the process that wrote the line.
func (e Event) Process() int {
	var pid int
	_, _ = fmt.Sscanf(e.Worker, "%d.", &pid)
	return pid
}

// succeeded tells the end of a call that returned nil.
func (e Event) succeeded() bool { return e.Kind == KindEnd && e.Error == "" }

// parse reads whole lines, and returns how many bytes they were. A line that is not finished is left for later.
func parse(text []byte) (events []Event, read int, err error) {
	for {
		end := bytes.IndexByte(text[read:], '\n')
		if end < 0 {
			return events, read, nil
		}
		var e Event
		if err := json.Unmarshal(text[read:read+end], &e); err != nil {
			return events, read, fmt.Errorf("fault: the journal has the line %q: %w", text[read:read+end], err)
		}
		events = append(events, e)
		read += end + 1
	}
}
