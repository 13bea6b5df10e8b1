package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor/internal/tape"
	"github.com/nats-io/nats.go"
)

// watch shows the tape again and again, until a signal comes. What fails at the first look ends it; later it says what is wrong, and goes on.
func (v *view) watch(ctx context.Context) error {
	show := v.showLines
	switch {
	case v.json:
		show = v.showJSON
	case v.outWidth > 0 && os.Getenv("TERM") != "dumb":
		show = (&frame{view: v}).show
	}
	if v.json || v.outWidth == 0 {
		v.say("watching %s every %v, Ctrl-C ends it", v.stream, v.flags.every)
	}
	next := time.NewTicker(v.flags.every)
	defer next.Stop()
	s := sight{}
	for {
		t, err := v.read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // its ordinary end
		case err != nil && (s.tape == nil || errors.Is(err, nats.ErrConnectionClosed)):
			return err
		}
		s.see(t, err)
		if err := show(s); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
	}
}

// sight is what a look has shown.
type sight struct {
	tape   *tape.Tape // the last one that there was
	before *tape.Tape // the one before that
	err    error      // why there is none now
	since  time.Time  // when it began
	was    error      // of the look before
}

func (s *sight) see(t *tape.Tape, err error) {
	s.was = s.err
	if err != nil {
		if s.err == nil {
			s.since = time.Now()
		}
		s.err = err
		return
	}
	s.err, s.before, s.tape = nil, s.tape, t
}

// sayTrouble says on standard error when answers begin to fail, and when they come again.
func (v *view) sayTrouble(s sight) {
	switch now := time.Now().Format(time.DateTime); {
	case s.err != nil && (s.was == nil || s.was.Error() != s.err.Error()):
		v.say("%s  %s; trying again", now, shown(s.err))
	case s.err == nil && s.was != nil:
		v.say("%s  stream %s answers again, after %s", now, v.stream, ago(time.Since(s.since)))
	}
}

func (v *view) showJSON(s sight) error {
	v.sayTrouble(s)
	if s.err != nil {
		return nil
	}
	return v.print(s.tape)
}

// showLines prints a line for each consumer whose numbers have changed, and for each that is no longer there.
func (v *view) showLines(s sight) error {
	v.sayTrouble(s)
	if s.err != nil {
		return nil
	}
	old := map[string]string{}
	partial := ""
	if s.before != nil {
		partial = s.before.Partial
		for _, c := range s.before.Cursors {
			old[c.Consumer] = numbers(c)
		}
	}
	now := s.tape.Seen.Format(time.DateTime)
	if s.tape.Partial != partial {
		v.say("%s  %s", now, printable(or(s.tape.Partial, "all consumers are known")))
	}
	var out strings.Builder
	for _, c := range s.tape.Cursors {
		if text := numbers(c); text != old[c.Consumer] {
			fmt.Fprintf(&out, "%s  %s  %s  %s\n", now, printable(s.tape.Stream), printable(c.Consumer), text)
		}
		delete(old, c.Consumer)
	}
	if s.before != nil {
		for _, c := range s.before.Cursors {
			if _, gone := old[c.Consumer]; gone {
				fmt.Fprintf(&out, "%s  %s  %s  deleted\n", now, printable(s.tape.Stream), printable(c.Consumer))
			}
		}
	}
	_, err := v.out.Write([]byte(out.String()))
	return err
}

// numbers are those of a cursor in words.
func numbers(c tape.Cursor) string {
	if c.Error != "" {
		return printable(c.Error)
	}
	text := fmt.Sprintf("ack floor %d, delivered %d, outstanding %d, redelivered %d, unprocessed %d", c.AckFloor, c.Delivered, c.Outstanding, c.Redelivered, c.Unprocessed)
	if c.Paused {
		text += ", paused"
	}
	return text
}

// frame is a picture on a terminal that is drawn again in its place.
type frame struct {
	*view
	lines         int // of the last picture
	columns, rows int // of the terminal then
}

// show draws the picture with a line of words above it, and cuts it where the terminal ends: what has left it at the top can't be drawn again.
func (f *frame) show(s sight) error {
	o := f.drawing()
	columns, rows := f.size()
	var text strings.Builder
	words := fmt.Sprintf("%s, every %v, Ctrl-C ends it", time.Now().Format(time.TimeOnly), f.flags.every)
	if s.err != nil {
		words = fmt.Sprintf("as of %s; since %s: %s; trying again", s.tape.Seen.Format(time.TimeOnly), s.since.Format(time.TimeOnly), printable(shown(s.err)))
	}
	style := plain
	if s.err != nil {
		style = f.look(red)
	}
	for line := range strings.SplitSeq(tape.Wrap(words, o), "\n") {
		text.WriteString(style.Render(line) + "\n")
	}
	text.WriteString("\n")
	if err := s.tape.Text(&text, o); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	if rows > 1 && len(lines) > rows-1 {
		more := fmt.Sprintf("… %d more lines: make the terminal taller", len(lines)-rows+2)
		if o.ASCII {
			more = strings.Replace(more, "…", "...", 1)
		}
		lines = append(lines[:rows-2], strings.SplitN(tape.Wrap(more, o), "\n", 2)[0])
	}
	var out strings.Builder
	switch {
	case f.lines > 0 && (columns != f.columns || rows != f.rows):
		out.WriteString("\x1b[H\x1b[2J") // where its lines are now is not known
	case f.lines > 0:
		fmt.Fprintf(&out, "\r\x1b[%dA", f.lines)
	}
	for _, line := range lines {
		out.WriteString("\r" + line + "\x1b[K\n")
	}
	out.WriteString("\x1b[J")
	f.lines, f.columns, f.rows = len(lines), columns, rows
	_, err := f.out.Write([]byte(out.String()))
	return err
}
