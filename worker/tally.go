package worker

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	tallyWindow = 10 * time.Second // in which failures that are alike are summed up
	tallyLines  = 10               // of them that get a line of their own, in each window
	tallyKinds  = 64               // that are told apart in a window; the others of one outcome count as one kind
	tallyText   = 160              // bytes of an error's text by which it is told from another
)

// tally sums up the failures of a flood: when what the handlers need is down, every message fails, in the same words but for its numbers. The first ones of a kind
// get their lines; the others of the same ten seconds get one together, with how many there were.
type tally struct {
	alarm *alarm
	mu    sync.Mutex
	kinds map[string]*alike
}

// alike are the failures of one window that have outcome, reason and text in common.
type alike struct {
	what        string
	level       zapcore.Level
	reason      string
	end         time.Duration // of the window
	lines       int           // written
	more        int           // not written
	first, last uint64        // sequences of those
	text        string        // of the last one
}

func newTally() *tally { return &tally{alarm: newAlarm(), kinds: make(map[string]*alike)} }

// add counts a failure, and tells whether it gets a line of its own.
func (t *tally) add(what string, level zapcore.Level, reason, text string, seq uint64, now time.Duration) bool {
	var buf [256]byte
	key := append(append(append(append(buf[:0], what...), 0), reason...), 0)
	outcome := len(key)
	key = appendPattern(key, text)
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.kinds[string(key)]
	if k == nil && len(t.kinds) >= tallyKinds {
		key = key[:outcome]
		k = t.kinds[string(key)]
	}
	if k == nil {
		k = &alike{what: what, level: level, reason: reason, end: now + tallyWindow}
		t.kinds[string(key)] = k
		t.alarm.by(k.end)
	}
	if k.lines < tallyLines {
		k.lines++
		return true
	}
	if k.more == 0 {
		k.first = seq
	}
	k.more++
	k.last, k.text = seq, text
	return false
}

// appendPattern appends what two errors have in common that differ in numbers only: an order's, an address's, a moment's.
func appendPattern(key []byte, text string) []byte {
	number := false
	for i := range min(len(text), tallyText) {
		c := text[i]
		digit := c >= '0' && c <= '9'
		if !digit {
			key = append(key, c)
		} else if !number {
			key = append(key, '#')
		}
		number = digit
	}
	return key
}

// over takes out the kinds whose window has ended by now, and tells when the next one ends.
func (t *tally) over(now time.Duration) (ended []*alike, next time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next = never
	for key, k := range t.kinds {
		if k.end > now {
			next = min(next, k.end)
			continue
		}
		delete(t.kinds, key)
		if k.more > 0 {
			ended = append(ended, k)
		}
	}
	return ended, next
}

// tendTally writes the sums of the windows that have ended.
func (r *Runner) tendTally(now time.Duration) time.Duration {
	ended, next := r.tally.over(now)
	for _, k := range ended {
		r.log.Log(k.level, "more failures like the last ones: "+k.what, zap.Int("more", k.more), zap.String("reason", k.reason), zap.Duration("within", tallyWindow),
			zap.Uint64("first_sequence", k.first), zap.Uint64("last_sequence", k.last), zap.String("error", k.text))
	}
	return next
}
