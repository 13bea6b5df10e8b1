package once

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor"
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
	return keyToken(m.Stream) + "." + keyToken(m.Consumer) + "." + strconv.FormatUint(m.Sequence, 10) + "." + strconv.FormatInt(m.Published.UnixNano(), 10)
}

// keyToken makes of a name what may stand in a key, which takes fewer characters than the names of streams and consumers. No two names make one token.
func keyToken(name string) string {
	if plain(name) {
		return name
	}
	return "=" + hex.EncodeToString([]byte(name))
}

// plain holds for names of letters, digits, - and _.
func plain(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	})
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
