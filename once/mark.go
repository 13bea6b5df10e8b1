package once

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/internal/kvbucket"
)

// state is what a mark says of its message.
type state string

const (
	running state = "running" // a call has begun; whether it lives, its age tells
	done    state = "done"    // the effect was made: never changed again
	failed  state = "failed"  // the handler returned an error: the next call is as good as the first
	broken  state = "broken"  // the handler panicked or ended its goroutine: nobody knows
	refused state = "refused" // in doubt, and given up
)

// mark is what stands in the bucket for a message: one line of JSON, which people read too.
type mark struct {
	State   state         `json:"state"`
	Call    string        `json:"call"`               // which call of a handler wrote it
	Limit   time.Duration `json:"limit_ns,omitempty"` // running: how old the mark may be while the call is not over
	Doubt   bool          `json:"doubt,omitempty"`    // running: it took a message in doubt over
	Replays int           `json:"replays,omitempty"`  // how often the message had come back from the dead letters
}

func (m mark) encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return b
}

func readMark(b []byte) (mark, error) {
	var m mark
	if err := json.Unmarshal(b, &m); err != nil {
		return m, err
	}
	switch m.State {
	case running, done, failed, broken, refused:
		return m, nil
	}
	return m, fmt.Errorf("its state is %q", m.State)
}

// markKey is the key of a message's mark: stream, consumer, sequence and the time at which the stream stored it in nanoseconds since 1970.
func markKey(m *ackfloor.Message) string {
	return kvbucket.Token(m.Stream) + "." + kvbucket.Token(m.Consumer) + "." + strconv.FormatUint(m.Sequence, 10) + "." + strconv.FormatInt(m.Published.UnixNano(), 10)
}

// headerReplays is deadletter.HeaderReplays, which a message from the dead letters carries.
const headerReplays = "Ackfloor-Replays"

// replays tells how often a message has come back from the dead letters.
func replays(m *ackfloor.Message) int {
	if v := m.Header[headerReplays]; len(v) > 0 {
		n, _ := strconv.Atoi(v[0])
		return n
	}
	return 0
}
