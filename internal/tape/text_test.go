package tape

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// draw is Text as a string.
func draw(t *testing.T, tape *Tape, o TextOptions) string {
	t.Helper()
	var out bytes.Buffer
	if err := tape.Text(&out, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// eight is the picture of three services at three positions.
func eight() *Tape {
	return &Tape{Stream: "EVENTS", First: 1, Last: 8, Messages: 8, Bytes: 312, LastTime: time.Date(2026, 11, 30, 14, 46, 2, 0, time.UTC), Cursors: []Cursor{
		{Consumer: "audit", Delivered: 8, AckFloor: 8, MaxAckPending: 1000, Durable: true, Pull: true},
		{Consumer: "billing", Delivered: 6, AckFloor: 3, Outstanding: 2, Redelivered: 1, MaxAckPending: 1000, Unprocessed: 2, WaitingPulls: 1, Durable: true, Pull: true},
		{Consumer: "email", Filter: []string{"events.*"}, Delivered: 2, AckFloor: 2, Unprocessed: 6, Durable: true, Paused: true},
	}}
}

func TestPictures(t *testing.T) {
	gaps := eight()
	gaps.Deleted, gaps.Messages = []uint64{3, 5}, 6
	gaps.Cursors = gaps.Cursors[1:2]
	broken := &Tape{Stream: "EVENTS", Partial: "not every consumer is known: no answer", Cursors: []Cursor{{Consumer: "email", Error: "there is no such consumer"}}}
	million := eight()
	million.Last, million.Messages, million.Bytes = 1_000_000, 1_000_000, 150<<20
	million.Cursors = []Cursor{
		{Consumer: "behind by one", Delivered: 999_999, AckFloor: 999_999, Unprocessed: 1, Durable: true, Pull: true},
		{Consumer: "one open", Delivered: 500_000, AckFloor: 499_999, Outstanding: 1, Unprocessed: 500_000, MaxAckPending: 1, Durable: true, Pull: true},
		{Consumer: "through", Delivered: 1_000_000, AckFloor: 1_000_000, Durable: true, Pull: true},
	}
	for name, c := range map[string]struct {
		tape *Tape
		o    TextOptions
		want string
	}{
		"three services": {eight(), TextOptions{Width: 100}, `
Stream EVENTS: 8 messages, 312 bytes, sequences 1 to 8, the last stored 2026-11-30 14:46:02

         1 2 3 4 5 6 7 8
audit    █ █ █ █ █ █ █ █
billing  █ █ █ ▒ ▒ ▒ ░ ░
email    █ █ ░ ░ ░ ░ ░ ░

█ settled   ▒ delivered: may be outstanding   ░ not delivered yet

CONSUMER  ACK FLOOR  DELIVERED  OUTSTANDING  REDELIVERED  UNPROCESSED  PULLS          FILTER
audit             8          8    0 of 1000            0            0      0
billing           3          6    2 of 1000            1            2      1
email             2          2            0            0            6   push  paused  events.*
`},
		"deleted messages, narrow, ASCII": {gaps, TextOptions{Width: 23, ASCII: true}, `
Stream EVENTS: 6
messages, 312 bytes,
sequences 1 to 8 with 2
of them deleted, the
last stored 2026-11-30
14:46:02

         1      8
billing  ##xoxo..

# settled
o delivered: may be
outstanding
. not delivered yet
x deleted

CONSUMER  UNPROCESSED
billing             2
`},
		"a million": {million, TextOptions{Width: 60}, `
Stream EVENTS: 1000000 messages, 150.0 MiB, sequences 1 to
1000000, the last stored 2026-11-30 14:46:02

               1                                     1000000
behind by one  ████████████████████████████████████████████░
one open       ██████████████████████▒░░░░░░░░░░░░░░░░░░░░░░
through        █████████████████████████████████████████████

█ settled   ▒ delivered: may be outstanding
░ not delivered yet   one cell is up to 22223 sequences

CONSUMER       ACK FLOOR  DELIVERED  UNPROCESSED
behind by one     999999     999999            1
one open          499999     500000       500000
through          1000000    1000000            0
`},
		"nothing known": {broken, TextOptions{}, `
Stream EVENTS: its ends are not known

CONSUMER  ACK FLOOR  DELIVERED  OUTSTANDING  REDELIVERED  UNPROCESSED  PULLS
email             ?          ?            ?            ?            ?      ?

not every consumer is known: no answer
email: there is no such consumer
`},
		"nothing there": {&Tape{Stream: "EVENTS"}, TextOptions{}, `
Stream EVENTS: no message was ever stored

It has no consumers.
`},
		"purged": {&Tape{Stream: "EVENTS", First: 9, Last: 8}, TextOptions{}, `
Stream EVENTS: empty, the last sequence was 8

It has no consumers.
`},
	} {
		got := "\n" + draw(t, c.tape, c.o)
		if got != c.want {
			t.Errorf("%s:%s\nnot%s", name, got, c.want)
		}
	}
}

var colours = regexp.MustCompile("\x1b\\[[0-9]+m")

func TestColoursOnlyWhereAskedFor(t *testing.T) {
	plain, coloured := draw(t, eight(), TextOptions{}), draw(t, eight(), TextOptions{Color: true})
	if strings.Contains(plain, "\x1b") || !strings.Contains(coloured, "\x1b[33m▒ ▒ ▒") || colours.ReplaceAllString(coloured, "") == coloured {
		t.Errorf("%q\n%q", plain, coloured)
	}
	if got := colours.ReplaceAllString(coloured, ""); got != plain {
		t.Errorf("the words differ:\n%s\n%s", got, plain)
	}
}

var odd = []string{"\x1b[2J\x07", "a\nb\r", "\u202eright", "\xff\xfe", "日本語の消費者", "e\u0301\u0301", "🙂🙂", "zero\u200bwidth", strings.Repeat("long-", 60), "tab\t", `back\slash`, ""}

// Whatever it holds, a tape is never wider than asked, and never anything that a terminal obeys.
func TestNoLineIsWiderThanAskedAndAllIsPrintable(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	some := func() uint64 { return random.Uint64() >> random.IntN(64) }
	for n := range 1000 {
		tape := &Tape{Stream: odd[n%len(odd)], First: some(), Messages: some(), Bytes: some(), LastTime: time.Now()}
		if tape.Last = tape.First + some(); tape.Last < tape.First {
			tape.Last = math.MaxUint64
		}
		if n%5 == 0 {
			tape.First, tape.Last = 0, 0
		}
		if n%3 == 0 {
			tape.Partial = odd[random.IntN(len(odd))]
		}
		for range random.IntN(4) {
			c := Cursor{Consumer: odd[random.IntN(len(odd))], Delivered: some(), AckFloor: some(), Outstanding: int(some() >> 1), MaxAckPending: int(some() >> 1),
				Redelivered: int(some() >> 1), Unprocessed: some(), Durable: random.IntN(2) > 0, Paused: random.IntN(4) == 0, Pull: random.IntN(3) > 0}
			if random.IntN(3) == 0 {
				c.Filter = odd
			}
			if random.IntN(3) == 0 {
				c.Error = odd[random.IntN(len(odd))]
			}
			tape.Cursors = append(tape.Cursors, c)
		}
		o := TextOptions{Width: 20 + n%181, Color: n%2 == 0, ASCII: n%7 == 0}
		for line := range strings.Lines(draw(t, tape, o)) {
			line = colours.ReplaceAllString(strings.TrimSuffix(line, "\n"), "")
			if width(line) > o.Width {
				t.Fatalf("%d columns, not %d: %q\n%+v", width(line), o.Width, line, tape)
			}
			for _, r := range line {
				if !unicode.IsPrint(r) || o.ASCII && r >= utf8.RuneSelf {
					t.Fatalf("%q is in %q", r, line)
				}
			}
		}
	}
}

func TestMarks(t *testing.T) {
	for _, c := range []struct {
		cursor Cursor
		want   string // of the sequences 1 to 6
	}{
		{Cursor{}, "dddddd"}, // there is nothing for it
		{Cursor{Unprocessed: 6}, "aaaaaa"},
		{Cursor{AckFloor: 2, Delivered: 4, Outstanding: 1, Unprocessed: 2}, "ddooaa"},
		{Cursor{AckFloor: 2, Delivered: 4, Outstanding: 1}, "ddoodd"}, // the rest is filtered out
		{Cursor{AckFloor: 2, Delivered: 4, Unprocessed: 2}, "ddddaa"}, // between them was nothing for it
		{Cursor{AckFloor: 8, Delivered: 9, Outstanding: 1, Unprocessed: 2}, "dddddd"},
	} {
		if got := marks(&Tape{First: 1, Last: 6}, c.cursor); got != c.want {
			t.Errorf("%+v: %s, not %s", c.cursor, got, c.want)
		}
	}
}

// Cells cover all sequences once, in order, and at the ends of what can be numbered too.
func TestCellsCoverEverySequence(t *testing.T) {
	for _, s := range []scale{scaleOf(1, 8, 40), scaleOf(1, 1, 1), scaleOf(5, 1_000_004, 77), scaleOf(1, math.MaxUint64, 60), scaleOf(math.MaxUint64-10, math.MaxUint64, 7), scaleOf(0, math.MaxUint64, 9)} {
		next := s.first
		for i := range s.cells {
			from, to := s.sequences(i)
			if from != next || to < from && to != from-1 {
				t.Errorf("%+v: cell %d is %d to %d", s, i, from, to)
			}
			next = to + 1
		}
		if last := next - 1; last != s.last && last != s.last-1 {
			t.Errorf("%+v: the last cell ends at %d", s, last)
		}
	}
}

func TestAMillionMessagesAreScaled(t *testing.T) {
	if testing.Short() || underRace {
		t.Skip("a million messages take half a minute under the race detector")
	}
	s := testutil.Server(t)
	begun := time.Now()
	s.Stream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}, Storage: jetstream.MemoryStorage})
	js := s.JetStream(t)
	for range 1000 { // an answer for the last of each thousand only, and no more than that under way
		for range 999 {
			if err := js.Conn().Publish("events.one", nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := js.Publish(t.Context(), "events.one", nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("stored in %v", time.Since(begun))
	for name, from := range map[string]uint64{"start": 1, "middle": 500_001, "end": 1_000_001} {
		c := s.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: name, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from})
		if name == "middle" {
			settle(t, c, 2, 500_001, 500_002)
		}
	}
	begun = time.Now()
	tape := read(t, NewReader(js, "EVENTS"))
	t.Logf("read in %v", time.Since(begun))
	if tape.Messages != 1_000_000 {
		t.Fatalf("%d messages", tape.Messages)
	}
	got := draw(t, tape, TextOptions{Width: 58, ASCII: true})
	for _, row := range []string{
		"        1                                          1000000\n",
		"end     " + strings.Repeat("#", 50) + "\n",
		"middle  " + strings.Repeat("#", 25) + "o" + strings.Repeat(".", 24) + "\n",
		"start   " + strings.Repeat(".", 50) + "\n",
		"one cell is up to 20000 sequences",
	} {
		if !strings.Contains(got, row) {
			t.Errorf("%q is missing in\n%s", row, got)
		}
	}
}

func TestAWriterThatFailsIsReported(t *testing.T) {
	if err := eight().Text(failing{}, TextOptions{}); !errors.Is(err, errFull) {
		t.Error(err)
	}
}

var errFull = errors.New("full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

func ExampleTape_Text() {
	var out strings.Builder
	_ = eight().Text(&out, TextOptions{Width: 64, ASCII: true})
	fmt.Print(out.String())
	// Output:
	// Stream EVENTS: 8 messages, 312 bytes, sequences 1 to 8, the last
	// stored 2026-11-30 14:46:02
	//
	//          1 2 3 4 5 6 7 8
	// audit    # # # # # # # #
	// billing  # # # o o o . .
	// email    # # . . . . . .
	//
	// # settled   o delivered: may be outstanding
	// . not delivered yet
	//
	// CONSUMER  ACK FLOOR  DELIVERED  OUTSTANDING  UNPROCESSED
	// audit             8          8    0 of 1000            0
	// billing           3          6    2 of 1000            2
	// email             2          2            0            6  paused
}
