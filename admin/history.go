package admin

import (
	"time"

	"github.com/ackfloor/ackfloor/worker"
)

// The history is of the last five minutes, a point every two seconds.
const (
	historyStep   = 2 * time.Second
	historyPoints = 150
)

// history is what a Runner did lately. A value is nil where it was not known.
type history struct {
	acked, unprocessed [historyPoints]*float64
	next               int // where the next point goes: the oldest one is there
	last               uint64
	at                 time.Time
}

// add takes a point: what was acknowledged since the last one, and what the server said last.
func (h *history) add(now time.Time, acked uint64, unprocessed *float64) {
	var rate *float64
	if took := now.Sub(h.at); !h.at.IsZero() && took > 0 && acked >= h.last {
		rate = new(float64(acked-h.last) / took.Seconds())
	}
	h.acked[h.next], h.unprocessed[h.next] = rate, unprocessed
	h.next = (h.next + 1) % historyPoints
	h.last, h.at = acked, now
}

// historyShown is a history as it is served, the oldest point first.
type historyShown struct {
	StepSeconds    float64    `json:"step_seconds"`
	Until          time.Time  `json:"until,omitzero"`   // when the last point was taken
	AckedPerSecond []*float64 `json:"acked_per_second"` // by this process; null where it is not known
	Unprocessed    []*float64 `json:"unprocessed"`      // of the consumer; null while the server did not say
}

func (h *history) shown() historyShown {
	out := historyShown{StepSeconds: historyStep.Seconds(), Until: h.at}
	for i := range historyPoints {
		at := (h.next + i) % historyPoints
		out.AckedPerSecond, out.Unprocessed = append(out.AckedPerSecond, h.acked[at]), append(out.Unprocessed, h.unprocessed[at])
	}
	return out
}

// sample takes a point for each Runner.
func (s *Site) sample(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.runners {
		st := r.Status()
		s.history[i].add(now, st.Counts.Acked, s.unprocessed(r.Config(), now))
	}
}

// unprocessed is what the server said lately of a Runner's consumer. s.mu is held.
func (s *Site) unprocessed(c worker.Config, now time.Time) *float64 {
	for _, t := range s.tapes {
		if t.Tape == nil || t.Stream != c.Stream || t.Problem != "" || now.Sub(t.Tape.Seen) > 2*s.idle()+askTimeout {
			continue
		}
		for _, cur := range t.Tape.Cursors {
			if cur.Consumer == c.Consumer && cur.Error == "" {
				return new(float64(cur.Unprocessed))
			}
		}
	}
	return nil
}
