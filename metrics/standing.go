package metrics

import (
	"sync"
	"time"

	"github.com/ackfloor/ackfloor/worker"
)

// standing is where the consumer stands.
type standing struct {
	worker.Cursor
	known    bool
	floorAge time.Duration
	lookAge  time.Duration
}

// lag follows a Runner's looks at its consumer from scrape to scrape.
type lag struct {
	mu      sync.Mutex
	last    worker.Cursor // that is believed; its Seen is zero before there is one
	doubted time.Time     // when a look saw zeros only that are not believed yet
	moved   time.Time     // when the floor moved last, or nothing was pending
}

// see takes what the Runner saw last, and tells where the consumer stands.
func (l *lag) see(c worker.Cursor, now time.Time) standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Seen.After(l.last.Seen) && l.believes(c) {
		idle := c.Pending == 0 && c.AckPending == 0
		if idle || c.AckFloor != l.last.AckFloor || l.moved.IsZero() {
			l.moved = c.Seen
		}
		l.last, l.doubted = c, time.Time{}
	}
	s := standing{Cursor: l.last, known: !l.last.Seen.IsZero()}
	if s.known {
		s.lookAge = max(0, now.Sub(l.last.Seen))
		if l.last.Pending > 0 || l.last.AckPending > 0 {
			s.floorAge = max(0, now.Sub(l.moved))
		}
	}
	return s
}

// believes tells whether what a look saw is taken for true. A server in its shutdown may answer with zeros: those are believed when the next look sees them too,
// as it does of a new consumer on an empty stream.
func (l *lag) believes(c worker.Cursor) bool {
	seen := c.Seen
	if c.Seen = (time.Time{}); c != (worker.Cursor{}) {
		return true
	}
	known := l.last
	if known.Seen = (time.Time{}); !l.last.Seen.IsZero() && known == (worker.Cursor{}) {
		return true // it was at zero before
	}
	if l.doubted.IsZero() {
		l.doubted = seen
	}
	return seen.After(l.doubted)
}

// span counts how long a state has lasted, from the first scrape that saw it.
type span struct {
	mu    sync.Mutex
	since time.Time // zero while it does not last
}

func (s *span) lasts(is bool, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !is:
		s.since = time.Time{}
		return 0
	case s.since.IsZero():
		s.since = now
	}
	return max(0, now.Sub(s.since))
}
