package systemd

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/ackfloor/ackfloor/worker"
)

// words are what `systemctl status` shows.
func (n *notifier) words() string {
	all := make([]string, 0, len(n.runners))
	for _, r := range n.runners {
		words := n.wordsOf(r)
		if len(n.runners) > 1 {
			words = r.Status().Consumer + ": " + words
		}
		all = append(all, words)
	}
	return oneLine(strings.Join(all, "; "))
}

func (n *notifier) wordsOf(r *worker.Runner) string {
	s := r.Status()
	where := fmt.Sprintf("ack floor %d, %d pending", s.Cursor.AckFloor, s.Cursor.Pending)
	held := fmt.Sprintf("%d running, %d waiting", s.Running, s.Waiting+s.Kept)
	switch {
	case s.State < worker.StateWorking:
		return fmt.Sprintf("waiting for %s on %s", s.Consumer, s.Stream)
	case s.State == worker.StateDraining:
		left := max(0, r.Config().DrainTimeout-time.Since(n.stopping)).Round(time.Second)
		return fmt.Sprintf("draining: %s, %v of the grace left", held, left)
	case s.State == worker.StateEnded:
		return "drained: resumes at the " + where
	case s.Paused != "":
		return "paused: " + s.Paused
	case s.Standby:
		return "standing by: another process works"
	case !s.Ready:
		return "not ready: " + s.Reason
	}
	return fmt.Sprintf("working: %d acked, %s, %s", s.Counts.Acked, held, where)
}

// kind is a status without its numbers.
func kind(words string) string {
	kind, _, _ := strings.Cut(words, ":")
	return kind
}

const longStatus = 400 // bytes of a status

// oneLine keeps a text to one line: a line break would begin another message to systemd.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
	if len(s) > longStatus {
		s = strings.ToValidUTF8(s[:longStatus], "") + "…"
	}
	return s
}
