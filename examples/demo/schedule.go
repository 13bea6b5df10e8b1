package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/ackfloor/ackfloor/internal/tape"
)

// step is one thing that the schedule does, and how long it is watched then.
type step struct {
	says  string
	do    func(ctx context.Context, d *demo) error
	watch time.Duration
	until func(*tape.Tape) bool // has to become true, and ends the watch; nil: the watch just goes on
}

func (d *demo) named(name string) *process {
	for _, p := range d.all() {
		if p.name == name {
			return p
		}
	}
	return nil
}

func starts(name string) func(context.Context, *demo) error {
	return func(ctx context.Context, d *demo) error { return d.named(name).start(ctx) }
}

func sends(name string, s syscall.Signal) func(context.Context, *demo) error {
	return func(_ context.Context, d *demo) error {
		d.named(name).signal(s)
		return nil
	}
}

// steps are what one would do by hand, the picture to hold: three cursors move at their own speed; each is stopped and goes on where it was; so does all of it when the server
// is away.
var steps = []step{
	{says: "three services read one stream, each from its own cursor", do: func(context.Context, *demo) error { return nil }, watch: 3 * time.Second},
	{says: "email is told to stop (SIGTERM): it drains", do: sends("email", syscall.SIGTERM), watch: 2500 * time.Millisecond},
	{says: "inventory is killed (SIGKILL)", do: sends("inventory", syscall.SIGKILL), watch: 2500 * time.Millisecond},
	{says: "email starts again: it goes on where it was", do: starts("email"), watch: 2500 * time.Millisecond},
	{says: "inventory starts again: what it held comes back when its lease has ended", do: starts("inventory"), watch: 3 * time.Second},
	{says: "the server is told to stop: all three wait", do: sends("server", syscall.SIGTERM), watch: 2 * time.Second},
	{says: "the server starts again: each goes on where it was", do: starts("server"), watch: 4 * time.Second},
	{says: "the traffic ends: each works off what is left", do: func(_ context.Context, d *demo) error { d.traffic.set(0); return nil }, watch: 30 * time.Second, until: settled},
}

// settled tells whether nothing is left to do, for any of the services.
func settled(t *tape.Tape) bool {
	if len(t.Cursors) < len(services) {
		return false
	}
	for _, c := range t.Cursors {
		if c.Outstanding > 0 || c.Unprocessed > 0 {
			return false
		}
	}
	return true
}

// shower shows a step, and what is seen while it is watched.
type shower interface {
	step(says string) error
	seen(d *demo, t *tape.Tape) error
	end(d *demo, t *tape.Tape) error
}

// schedule runs the steps.
func (d *demo) schedule(ctx context.Context, steps []step, to shower) error {
	for _, s := range steps {
		if err := to.step(s.says); err != nil {
			return err
		}
		if err := s.do(ctx, d); err != nil {
			return unlessEnded(ctx, err)
		}
		last, reached, err := d.watch(ctx, s, to)
		if err != nil || ctx.Err() != nil {
			return err
		}
		if err := to.end(d, last); err != nil {
			return err
		}
		if !reached {
			return fmt.Errorf("%s: it is not done after %v", s.says, s.watch)
		}
	}
	return nil
}

// watch shows what is seen after a step, until its time is over, it has come to what it waits for, or ctx ends.
func (d *demo) watch(ctx context.Context, s step, to shower) (last *tape.Tape, reached bool, err error) {
	for end := time.Now().Add(s.watch); time.Now().Before(end); {
		if !pause(ctx, 500*time.Millisecond) {
			return last, false, nil
		}
		last = d.look(ctx)
		if err := to.seen(d, last); err != nil {
			return last, false, err
		}
		if s.until != nil && last != nil && s.until(last) {
			return last, true, nil
		}
	}
	return last, s.until == nil, nil
}

// unlessEnded is nil where err says no more than that ctx has ended.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// lines shows the schedule as lines: one for each look.
type lines struct {
	out  io.Writer
	last string
}

func (l *lines) step(says string) error {
	_, err := fmt.Fprintf(l.out, "\n# %s\n", says)
	return err
}

func (l *lines) seen(d *demo, t *tape.Tape) error {
	line := line(d, t)
	if line == l.last {
		return nil
	}
	l.last = line
	_, err := fmt.Fprintf(l.out, "%s  %s\n", time.Now().Format(time.TimeOnly), line)
	return err
}

func (l *lines) end(*demo, *tape.Tape) error { return nil }

// line is what is seen, in one line.
func line(d *demo, t *tape.Tape) string {
	if t == nil {
		return "the server is away"
	}
	parts := []string{fmt.Sprintf("EVENTS %d", t.Last)}
	for _, c := range t.Cursors {
		p := d.named(c.Consumer)
		if p == nil {
			continue
		}
		text := fmt.Sprintf("%s floor %d delivered %d outstanding %d redelivered %d unprocessed %d", c.Consumer, c.AckFloor, c.Delivered, c.Outstanding, c.Redelivered, c.Unprocessed)
		if l := p.look(); !l.running {
			text += " (" + l.state + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " | ")
}

// recording shows the end of each step as a picture, for a file.
type recording struct {
	out io.Writer
}

func (r *recording) step(says string) error {
	_, err := fmt.Fprintf(r.out, "# %s\n\n", says)
	return err
}

func (r *recording) seen(*demo, *tape.Tape) error { return nil }

func (r *recording) end(d *demo, t *tape.Tape) error {
	if t == nil {
		_, err := fmt.Fprintln(r.out, "the server is away: nothing moves")
		if err == nil {
			_, err = fmt.Fprintln(r.out)
		}
		return err
	}
	if err := d.only(t).Text(r.out, tape.TextOptions{Width: recordWidth}); err != nil {
		return err
	}
	for _, p := range d.services {
		if l := p.look(); !l.running {
			if _, err := fmt.Fprintf(r.out, "%s: %s\n", l.name, l.state); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintln(r.out)
	return err
}

const recordWidth = 100

// only is the tape with the cursors of the services alone.
func (d *demo) only(t *tape.Tape) *tape.Tape {
	own := *t
	own.Cursors = nil
	for _, c := range t.Cursors {
		if d.named(c.Consumer) != nil {
			own.Cursors = append(own.Cursors, c)
		}
	}
	return &own
}
