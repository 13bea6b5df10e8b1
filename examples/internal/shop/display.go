package shop

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/worker"
)

const (
	tick      = 100 * time.Millisecond
	quiet     = 2               // ticks without work after which it has settled
	busyShow  = 5 * time.Second // under load that never settles, the cursor is shown this often
	lookLimit = time.Second     // for the server to tell the cursor
)

// Show prints the line of one message: what was done with it. Control characters, which a payload may bring, are escaped.
func Show(m *ackfloor.Message, format string, args ...any) {
	line := fmt.Sprintf("  #%-3d %-22s attempt %d  %s", m.Sequence, m.Subject, m.Attempt, fmt.Sprintf(format, args...))
	fmt.Println(printable(line))
}

func printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// display shows what the Runner does: failures, and the cursor at the start, whenever work has settled, and at the end.
type display struct {
	say    func(format string, args ...any)
	runner *worker.Runner
	cfg    worker.Config
	begin  func() // prints the first cursor, once
	shown  worker.Cursor
	pauses pauses
}

func newDisplay(say func(string, ...any)) *display {
	d := &display{say: say}
	d.begin = sync.OnceFunc(func() {
		d.say("working on %s with the durable consumer %s; Ctrl-C stops it", strings.Join(d.cfg.Filter, ", "), d.cfg.Consumer)
		d.shown = d.runner.Status().Cursor
		d.showCursor(d.shown)
	})
	return d
}

// middleware shows failures; a handler shows its successes itself, since only it knows what it did.
func (d *display) middleware(next ackfloor.Handler) ackfloor.Handler {
	return ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		d.begin() // before the first message's line
		err := next.Handle(ctx, m)
		text, paused := d.pauses.changed(err)
		switch _, permanent := errors.AsType[*ackfloor.PermanentError](err); {
		case err == nil || paused && text == "":
		case paused:
			d.say("%s", text)
		case permanent:
			Show(m, "refused: %v", err)
		default:
			Show(m, "failed, will be tried again: %v", err)
		}
		return err
	})
}

// batches is middleware for a handler of batches.
func (d *display) batches(next ackfloor.BatchHandler) ackfloor.BatchHandler {
	return ackfloor.BatchHandlerFunc(func(ctx context.Context, b *ackfloor.Batch) error {
		d.begin()
		err := next.HandleBatch(ctx, b)
		text, paused := d.pauses.changed(err)
		switch {
		case err == nil || paused && text == "":
		case paused:
			d.say("%s", text)
		default:
			d.say("a batch of %d failed: %s", len(b.Messages), printable(err.Error()))
		}
		return err
	})
}

// pauses remembers why the service waits, so that it says so once and not with every attempt: what it works with is out, and no message is to blame.
type pauses struct {
	mu   sync.Mutex
	last string // why; "" while it does not wait
}

// changed tells whether err is a pause, and what to say of it: nothing where that was said already. What is no pause ends it.
func (p *pauses) changed(err error) (say string, paused bool) {
	var pause *ackfloor.PauseError
	paused = errors.As(err, &pause)
	why := ""
	if paused {
		why = "paused: " + printable(err.Error())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if why == p.last {
		return "", paused
	}
	p.last = why
	return why, paused
}

// run shows the cursor until ctx ends, which is when the Runner has drained.
func (d *display) run(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var settled progress
	for connected, stopping := true, false; ; {
		select {
		case <-ctx.Done():
			d.end(ctx)
			return nil
		case <-ticker.C:
		}
		s := d.runner.Status()
		if s.State < worker.StateWorking {
			continue
		}
		d.begin()
		if s.State == worker.StateDraining && !stopping {
			stopping = true
			d.say("stopping: what is under way is finished first")
		}
		if s.State == worker.StateWorking && s.Connected != connected {
			connected = s.Connected
			d.showConnection(connected)
		}
		if connected && settled.due(s, time.Now()) {
			d.look(ctx)
		}
	}
}

func (d *display) showConnection(connected bool) {
	if connected {
		d.say("the server is back: going on")
		return
	}
	d.say("the server is gone: waiting for it (if another example had started it, start that one again)")
}

// look asks for the cursor and shows it where it has moved.
func (d *display) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	c, err := d.runner.Look(ctx)
	if err != nil {
		return // the server is restarting; there is a next time
	}
	if c.Delivered != d.shown.Delivered || c.AckFloor != d.shown.AckFloor || c.Pending != d.shown.Pending {
		d.shown = c
		d.showCursor(c)
	}
}

func (d *display) showCursor(c worker.Cursor) {
	d.say("cursor: delivered %d, ack floor %d, pending %d", c.Delivered, c.AckFloor, c.Pending)
}

// end shows where the next worker resumes. The Runner looked at the consumer for the last time when it had drained.
func (d *display) end(ctx context.Context) {
	s := d.runner.Status()
	if s.Cursor.Seen.IsZero() {
		return // it was never bound
	}
	d.begin()
	d.showCursor(s.Cursor)
	n := s.Counts
	parts := []string{fmt.Sprintf("%d handled", n.Acked)}
	for _, more := range []struct {
		n    uint64
		what string
	}{{n.DeadLettered + n.Terminated, "refused"}, {n.Retried, "to be tried again"}, {n.Returned, "handed back"}, {n.Unconfirmed, "not confirmed by the server"}} {
		if more.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", more.n, more.what))
		}
	}
	line := strings.Join(parts, ", ")
	if !s.Connected {
		line += "; the server is gone, the cursor is as it was seen last"
	}
	d.say("stopped: %s; resume at %d", line, s.Cursor.AckFloor+1)
}

// progress tells when there is something new to show.
type progress struct {
	shown, last uint64 // settled messages: when the cursor was shown, and at the last tick
	still       int    // ticks without a change
	at          time.Time
}

func (p *progress) due(s worker.Status, now time.Time) bool {
	n := s.Counts.Acked + s.Counts.DeadLettered + s.Counts.Terminated + s.Counts.Retried + s.Counts.Returned
	if busy := s.Waiting+s.Running+s.Kept > 0 || s.Counts.Unconfirmed > 0; busy || n != p.last {
		p.still = 0
	} else {
		p.still++
	}
	p.last = n
	if n == p.shown || p.still < quiet && now.Sub(p.at) < busyShow {
		return false
	}
	p.shown, p.at = n, now
	return true
}
