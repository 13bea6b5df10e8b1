package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/ackfloor/ackfloor/internal/tape"
	"github.com/charmbracelet/x/ansi"
)

const (
	frameEvery = 250 * time.Millisecond
	windowMin  = 60 // sequences that are shown at the least
)

// screen shows the demo in the terminal, until q, Ctrl-C or the end of ctx.
func (d *demo) screen(ctx context.Context) error {
	_, err := tea.NewProgram(&model{demo: d, ctx: ctx, width: 80, height: 24}, tea.WithContext(ctx), tea.WithoutSignalHandler()).Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return nil // told to stop
	}
	return err
}

// model is what the screen shows.
type model struct {
	demo          *demo
	ctx           context.Context
	width, height int
	chosen        int // of demo.all()
	tape          *tape.Tape
	away          bool // the server
	said          string
}

// seenMsg is a look at the stream.
type seenMsg struct{ tape *tape.Tape }

// failedMsg is why a process could not be started.
type failedMsg struct{ err error }

func (m *model) Init() tea.Cmd { return m.look() }

func (m *model) look() tea.Cmd {
	return func() tea.Msg { return seenMsg{m.demo.look(m.ctx)} }
}

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case seenMsg:
		if m.away = msg.tape == nil; !m.away {
			m.tape = msg.tape
		}
		return m, tea.Sequence(tea.Tick(frameEvery, func(time.Time) tea.Msg { return nil }), m.look())
	case failedMsg:
		m.said = msg.err.Error()
	case tea.KeyPressMsg:
		return m, m.key(msg.String())
	}
	return m, nil
}

// key does what a key asks for.
func (m *model) key(key string) tea.Cmd {
	all := m.demo.all()
	chosen := all[m.chosen]
	m.said = ""
	switch key {
	case "q", "ctrl+c", "esc":
		return tea.Quit
	case "1", "2", "3", "4":
		m.chosen = int(key[0] - '1')
	case "up", "left", "shift+tab":
		m.chosen = (m.chosen + len(all) - 1) % len(all)
	case "down", "right", "tab":
		m.chosen = (m.chosen + 1) % len(all)
	case "s":
		chosen.signal(syscall.SIGTERM)
		m.said = chosen.name + " is told to stop: SIGTERM"
	case "k":
		chosen.signal(syscall.SIGKILL)
		m.said = chosen.name + " is killed: SIGKILL"
	case "r", "enter":
		m.said = chosen.name + " starts"
		return func() tea.Msg {
			if err := chosen.start(); err != nil {
				return failedMsg{err}
			}
			return nil
		}
	case "+", "=":
		m.demo.traffic.set(max(1, m.demo.traffic.now()*2))
	case "-":
		m.demo.traffic.set(m.demo.traffic.now() / 2)
	case "0":
		m.demo.traffic.set(0)
	}
	return nil
}

func (m *model) View() tea.View {
	v := tea.NewView(m.text())
	v.AltScreen = true
	v.WindowTitle = "Ackfloor: three services, three cursors, one stream"
	return v
}

// text is the screen: the tape, the processes, the keys. No line is wider than the terminal.
func (m *model) text() string {
	var out strings.Builder
	line := func(format string, args ...any) {
		out.WriteString(ansi.Truncate(fmt.Sprintf(format, args...), m.width, "…"))
		out.WriteByte('\n')
	}
	line("\x1b[1mThree services, three cursors, one stream\x1b[0m   %.3g events a second, %d so far", m.demo.traffic.now(), m.demo.traffic.sent.Load())
	line("")
	if m.tape != nil {
		var picture strings.Builder
		_ = window(m.demo.only(m.tape)).Text(&picture, tape.TextOptions{Width: m.width, Color: true}) // a Builder takes all
		out.WriteString(picture.String())
	}
	if m.away {
		line("\x1b[31mthe server is away: this is how it was seen last\x1b[0m")
	}
	line("")
	for i, p := range m.demo.all() {
		l := p.look()
		pointer, code := "  ", "31"
		if i == m.chosen {
			pointer = "> "
		}
		if l.running {
			code = "32"
		}
		line("%s%d %-10s \x1b[%sm%-12s\x1b[0m %s", pointer, i+1, l.name, code, l.state, ansi.Strip(l.last))
	}
	line("")
	line("1-4 choose   s stop   k kill   r start   + - 0 traffic   q quit")
	if m.said != "" {
		line("%s", m.said)
	}
	return out.String()
}

// window is the end of the tape, as far back as a cursor has work: what lies before has been settled by all.
func window(t *tape.Tape) *tape.Tape {
	if t.Last <= windowMin {
		return t
	}
	w := *t
	from := t.Last - windowMin + 1
	for _, c := range t.Cursors {
		if c.Outstanding > 0 || c.Unprocessed > 0 {
			from = min(from, c.AckFloor+1)
		}
	}
	w.First = max(t.First, from)
	return &w
}
