package worker

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// start is where a new consumer begins, in the server's terms.
type start struct {
	policy jetstream.DeliverPolicy
	seq    uint64
	time   *time.Time
}

func parseStart(s string) (start, error) {
	switch {
	case s == "" || s == "all":
		return start{policy: jetstream.DeliverAllPolicy}, nil
	case s == "new":
		return start{policy: jetstream.DeliverNewPolicy}, nil
	case s == "last":
		return start{policy: jetstream.DeliverLastPolicy}, nil
	case strings.HasPrefix(s, "seq:"):
		n, err := strconv.ParseUint(s[4:], 10, 64)
		if err != nil || n == 0 {
			return start{}, fmt.Errorf("start %q: the sequence is a whole number from 1", s)
		}
		return start{policy: jetstream.DeliverByStartSequencePolicy, seq: n}, nil
	case strings.HasPrefix(s, "time:"):
		t, err := time.Parse(time.RFC3339, s[5:])
		if err != nil {
			return start{}, fmt.Errorf("start %q: %w", s, err)
		}
		return start{policy: jetstream.DeliverByStartTimePolicy, time: &t}, nil
	}
	return start{}, fmt.Errorf("start %q: it takes all, new, last, seq:N or time:RFC3339", s)
}

// startOf reads the start back from a consumer's configuration.
func startOf(c jetstream.ConsumerConfig) start {
	return start{policy: c.DeliverPolicy, seq: c.OptStartSeq, time: c.OptStartTime}
}

func (s start) String() string {
	switch s.policy {
	case jetstream.DeliverAllPolicy:
		return "all"
	case jetstream.DeliverNewPolicy:
		return "new"
	case jetstream.DeliverLastPolicy:
		return "last"
	case jetstream.DeliverByStartSequencePolicy:
		return fmt.Sprintf("seq:%d", s.seq)
	case jetstream.DeliverByStartTimePolicy:
		if s.time != nil {
			return "time:" + s.time.UTC().Format(time.RFC3339)
		}
	}
	return s.policy.String()
}
