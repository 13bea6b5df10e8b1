package worker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/deadletter"
	"go.uber.org/zap"
)

// Failure is an attempt that failed.
type Failure struct {
	At       time.Time
	Subject  string // printable
	Sequence uint64 // in the stream
	Attempt  int
	Error    string // one line of at most 1,000 bytes, printable and without the secrets that URLs carry
	Reason   string // failed, timed out, panicked, or why it was given up: permanent, exhausted, undecodable, suspected crash
	Then     string // retried, dead-lettered or terminated
}

// failuresKept is how many failures a Runner remembers.
const failuresKept = 32

// failures are the last ones.
type failures struct {
	mu   sync.Mutex
	ring []Failure
	next int // where the next one goes once the ring is full
}

// Failures lists the last failures, at most 32, the newest first.
func (r *Runner) Failures() []Failure {
	f := &r.failures
	f.mu.Lock()
	defer f.mu.Unlock()
	out := append(slices.Clone(f.ring[f.next:]), f.ring[:f.next]...)
	slices.Reverse(out)
	return out
}

func (f *failures) add(one Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ring) < failuresKept {
		f.ring = append(f.ring, one)
		return
	}
	f.ring[f.next] = one
	f.next = (f.next + 1) % failuresKept
}

// remember keeps a failure for those who look. What was interrupted, or came late, is none.
func (r *Runner) remember(of identity, attempt int, v verdict, text string) {
	then := ""
	switch {
	case v.kind == retried:
		then = "retried"
	case v.kind == givenUp && v.letter:
		then = "dead-lettered"
	case v.kind == givenUp:
		then = "terminated"
	default:
		return
	}
	if r.source != nil { // the replays' failures are shown with the others
		r = r.source
	}
	r.failures.add(Failure{At: time.Now(), Subject: of.subject, Sequence: of.sequence, Attempt: attempt, Error: text, Reason: v.reason, Then: then})
}

// logFailure writes the one line that a failure gets, where it is not one of a flood, and remembers it.
func (r *Runner) logFailure(d *delivery, v verdict, err error) {
	if isSame(err) && !r.log.Core().Enabled(zap.DebugLevel) {
		return
	}
	if v.kind == returned {
		r.log.Debug("interrupted: handed back, no failure", append(describe(d), errorFields(err)...)...)
		return
	}
	what, level := "failed: will be tried again", zap.WarnLevel
	switch {
	case v.kind == late:
		what = "returned an error late: the lease was lost before; nothing is sent"
	case v.kind == givenUp && v.letter:
		what, level = "given up: in the dead letters", zap.ErrorLevel
	case v.kind == givenUp:
		what, level = "given up: terminated", zap.ErrorLevel
	}
	text := shortError(err)
	of := identify(d)
	r.remember(of, d.msg.Attempt, v, text)
	if !r.tally.add(what, level, v.reason, text, of.sequence, r.clock.now()) && !r.log.Core().Enabled(zap.DebugLevel) {
		return
	}
	fields := append(of.fields(d.msg.Attempt), errorFields(err)...)
	switch v.kind {
	case retried:
		fields = append(fields, zap.String("reason", v.reason), zap.Duration("delay", v.delay))
	case givenUp:
		fields = append(fields, zap.String("reason", v.reason), zap.Int("max_attempts", r.cfg.MaxAttempts))
	}
	r.log.Log(level, what, fields...)
}

// identity is the message that a delivery is of: of a replay, the one that was replayed.
type identity struct {
	subject  string // printable
	sequence uint64
	replay   uint64 // the replay's own sequence; 0: it is none
}

func identify(d *delivery) identity {
	if d.attempt.r.source != nil {
		l, err := deadletter.ReadReplay(d.msg.Subject, d.msg.Header, nil)
		if err == nil {
			return identity{printable(l.Subject), l.MessageSequence, d.msg.Sequence}
		}
	}
	return identity{subject: printable(d.msg.Subject), sequence: d.msg.Sequence}
}

func (i identity) fields(attempt int) []zap.Field {
	out := []zap.Field{zap.String("subject", i.subject), zap.Uint64("sequence", i.sequence), zap.Int("attempt", attempt)}
	if i.replay != 0 {
		out = append(out, zap.Uint64("replay", i.replay))
	}
	return out
}

// describe names a message. Of a replay it names the message that it is of, and the replay beside.
func describe(d *delivery) []zap.Field { return identify(d).fields(d.msg.Attempt) }

// errorFields tells an error without secrets, and the stack of a panic, also where a method of the error panics itself.
func errorFields(err error) (fields []zap.Field) {
	defer func() {
		if p := recover(); p != nil {
			fields = []zap.Field{zap.String("error", shown(fmt.Sprintf("%T, a method of which panicked: %v", err, p)))}
		}
	}()
	if err == nil {
		return nil
	}
	fields = []zap.Field{zap.String("error", shown(cut(err.Error(), longError)))}
	var panicked *ackfloor.PanicError
	if errors.As(err, &panicked) && panicked.Stack != nil {
		fields = append(fields, zap.ByteString("stack", panicked.Stack))
	}
	return fields
}

const longError = 8 << 10 // bytes of an error's text in a line of the log

// cut bounds a text.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// shortError is an error in the form that a letter and a record carry: one line without secrets; of a panic, its value.
func shortError(err error) (s string) {
	if err == nil {
		return ""
	}
	defer func() {
		if p := recover(); p != nil {
			s = fmt.Sprintf("%T, a method of which panicked", err)
		}
	}()
	var panicked *ackfloor.PanicError
	if errors.As(err, &panicked) && !panicked.Goexit {
		return cut(shown(cut("panic: "+fmt.Sprint(panicked.Value), longError)), shortErrorMost)
	}
	return cut(shown(cut(err.Error(), longError)), shortErrorMost)
}

const shortErrorMost = 1000
