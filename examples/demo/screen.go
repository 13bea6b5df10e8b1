package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
			if err := chosen.start(m.ctx); err != nil {
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

// Which rows of the screen are left out first where the terminal has too few, and within a kind the lowest first. The keys and the message stay.
const (
	always = iota
	blankRow
	legendRow
	pictureRow
	otherRow // a process that is not chosen
	headRow
	chosenRow
)

// rows are the screen from the top.
type rows struct {
	width int
	rows  []row
}

type row struct {
	text string
	kind int
}

func (r *rows) add(kind int, format string, args ...any) {
	r.rows = append(r.rows, row{ansi.Truncate(fmt.Sprintf(format, args...), r.width, "…"), kind})
}

// fit leaves out what has no room.
func (r *rows) fit(height int) string {
	for kind := blankRow; kind <= chosenRow; kind++ {
		for i := len(r.rows) - 1; i >= 0 && len(r.rows) > height; i-- {
			if r.rows[i].kind == kind {
				r.rows = slices.Delete(r.rows, i, i+1)
			}
		}
	}
	var texts []string
	for _, row := range r.rows {
		texts = append(texts, row.text)
	}
	return strings.Join(texts, "\n")
}

// picture adds the tape.
func (r *rows) picture(t *tape.Tape) {
	var picture strings.Builder
	_ = window(t).Text(&picture, tape.TextOptions{Width: r.width, Color: true}) // a Builder takes all
	legend := false
	for i, text := range strings.Split(strings.TrimSuffix(picture.String(), "\n"), "\n") {
		kind := pictureRow
		switch plain := []rune(ansi.Strip(text)); {
		case i == 0:
			kind = headRow
		case len(plain) == 0:
			kind, legend = blankRow, false
		case legend || len(plain) > 2 && strings.ContainsRune("█▒░×", plain[0]) && plain[1] == ' ':
			kind, legend = legendRow, true // what the cells mean
		}
		r.add(kind, "%s", text)
	}
}

// text is the screen: the tape, the processes, the keys. No line is wider than the terminal, and there are no more than it has.
func (m *model) text() string {
	r := &rows{width: m.width}
	r.add(headRow, "\x1b[1mThree services, three cursors, one stream\x1b[0m   %.3g events a second, %d so far", m.demo.traffic.now(), m.demo.traffic.sent.Load())
	r.add(blankRow, "")
	if m.tape != nil {
		r.picture(m.demo.only(m.tape))
	}
	if m.away {
		r.add(headRow, "\x1b[31mthe server is away: this is how it was seen last\x1b[0m")
	}
	r.add(blankRow, "")
	for i, p := range m.demo.all() {
		l := p.look()
		pointer, code, kind := "  ", "31", otherRow
		if i == m.chosen {
			pointer, kind = "> ", chosenRow
		}
		if l.running {
			code = "32"
		}
		page := ""
		if l.page != "" {
			page = "http://" + l.page
		}
		r.add(kind, "%s%d %-10s \x1b[%sm%-10s\x1b[0m %-22s %s", pointer, i+1, l.name, code, l.state, page, ansi.Strip(l.last))
	}
	r.add(blankRow, "")
	r.add(always, "1-4 choose   s stop   k kill   r start   + - 0 traffic   q quit")
	if m.said != "" {
		r.add(always, "%s", ansi.Strip(strings.Join(strings.Fields(m.said), " ")))
	}
	return r.fit(m.height)
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
