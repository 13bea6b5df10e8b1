package main

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"charm.land/lipgloss/v2"
	"golang.org/x/term"
)

// screen is where the command reads from and writes to.
type screen struct {
	in       io.Reader
	out, err io.Writer
	outWidth int  // columns of the terminal that out is; 0 where it is none
	errWidth int  // the same of err
	asks     bool // in and err are a terminal: a question has somebody to answer it
	colour   bool // out may be coloured
}

func newScreen(in, out, err *os.File) *screen {
	s := &screen{in: in, out: out, err: err, outWidth: widthOf(out), errWidth: widthOf(err)}
	s.asks = s.errWidth > 0 && term.IsTerminal(int(in.Fd()))
	s.colour = s.outWidth > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

// widthOf returns the columns of a terminal: what it says itself, else COLUMNS, else 80. It is 0 for what is no terminal.
func widthOf(f *os.File) int {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return 0
	}
	if w, _, err := term.GetSize(fd); err == nil && w > 0 {
		return w
	}
	if w, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && w > 0 {
		return w
	}
	return 80
}

// size is that of the terminal that out is, now; 0 where it is none, or does not say.
func (s *screen) size() (columns, rows int) {
	f, ok := s.out.(*os.File)
	if !ok {
		return 0, 0
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, rows
}

// say writes a line for the person, beside the output proper.
func (s *screen) say(format string, args ...any) {
	fmt.Fprintf(s.err, format+"\n", args...)
}

// look is a style of the 16 colours that every terminal has, or none where there is to be no colour.
func (s *screen) look(style lipgloss.Style) lipgloss.Style {
	if !s.colour {
		return lipgloss.NewStyle()
	}
	return style
}

var (
	plain  = lipgloss.NewStyle()
	bold   = plain.Bold(true)
	red    = plain.Foreground(lipgloss.Red)
	green  = plain.Foreground(lipgloss.Green)
	yellow = plain.Foreground(lipgloss.Yellow)
	cyan   = plain.Foreground(lipgloss.Cyan)
)
