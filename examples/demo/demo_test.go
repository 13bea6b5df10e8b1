//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/internal/tape"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

func TestMain(m *testing.M) {
	if os.Getenv("ACKFLOOR_DEMO_MAIN") != "" || os.Getenv(serverVariable) != "" {
		main()
		return
	}
	code := m.Run()
	if dir, _ := programs(); dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// programs are the three services, built once.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "demo-test-")
	if err == nil {
		err = build(context.Background(), dir)
	}
	return dir, err
})

// elsewhere are variables of the caller with which the services would work on something else than the demo's, or not at all.
var elsewhere = []string{
	"DATABASE_URL=postgres://nobody@127.0.0.1:1/none", "DATABASE_URL_FILE=/none", "SMTP_URL=smtp://127.0.0.1:1", "SMTP_URL_FILE=/none", "SMTP_FROM=nobody", "EMAIL_RATE=never",
	"EMAIL_PAUSE=long", "ANALYTICS_KEEP_CHART=1", "WORKER_STREAM=OTHER", "WORKER_CONSUMER=other", "WORKER_HTTP_ADDR=nowhere", "WORKER_DEAD_LETTER_BYTES=1", "NATS_URL=nats://127.0.0.1:1",
	"NATS_URL_FILE=/none", "NATS_CREDS=/none", "ACKFLOOR_EXAMPLE_ADDR=nowhere",
}

// start runs the demo as a process, in a terminal or without one.
func start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], append([]string{"-bin", bin, "-dir", filepath.Join(t.TempDir(), "demo")}, args...)...)
	cmd.Env = append(append(os.Environ(), elsewhere...), "ACKFLOOR_DEMO_MAIN=1", "TERM=xterm-256color")
	return cmd
}

var numbers = regexp.MustCompile(`(inventory|email|analytics) floor (\d+) delivered (\d+) outstanding (\d+) redelivered (\d+) unprocessed (\d+)( \(\w+\))?`)

// The schedule by itself: floors never go back, whatever is stopped, killed and started; a stopped one's stands still; in the end all is settled, and nothing is left running.
func TestSchedule(t *testing.T) {
	t.Parallel()
	cmd := start(t, "-plain", "-rate", "40")
	printed := &output{}
	cmd.Stdout, cmd.Stderr = printed, printed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watching, over := make(chan struct{}), make(chan map[string]*watched, 1)
	go func() { over <- watchPages(t, printed, watching) }()
	err := cmd.Wait()
	close(watching)
	out := printed.String()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checkPages(t, <-over)
	if n := strings.Count(out, "status page of "); n != 3 || !strings.Contains(out, "stopping: the services drain") {
		t.Errorf("%d status pages, or nothing of the end:\n%s", n, out)
	}
	floors, stopped, last := map[string]string{}, map[string]bool{}, map[string][]string{}
	for line := range strings.Lines(out) {
		for _, m := range numbers.FindAllStringSubmatch(line, -1) {
			if len(m[2]) < len(floors[m[1]]) || len(m[2]) == len(floors[m[1]]) && m[2] < floors[m[1]] {
				t.Errorf("the floor of %s went back from %s: %s", m[1], floors[m[1]], line)
			}
			floors[m[1]], last[m[1]] = m[2], m
			if m[7] != "" {
				stopped[m[1]+m[7]] = true
			}
		}
	}
	for name, m := range last {
		if m[4] != "0" || m[6] != "0" || m[7] != "" {
			t.Errorf("%s ends with %v", name, m)
		}
	}
	if len(last) != 3 || !stopped["email (stopped)"] || !stopped["inventory (killed)"] || !strings.Contains(out, "the server is away") {
		t.Errorf("not everything was seen:\n%s", out)
	}
}

// shown is the text on the screen. String of SafeEmulator takes no lock; Render does.
func shown(screen *vt.SafeEmulator) string { return ansi.Strip(screen.Render()) }

// sees waits until the terminal shows a text.
func sees(t *testing.T, screen *vt.SafeEmulator, text string) {
	t.Helper()
	for end := time.Now().Add(40 * time.Second); !strings.Contains(shown(screen), text); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %q in\n%s", text, shown(screen))
		}
	}
}

// The screen: what the keys say is done, to a service and to the server, and q ends all of it cleanly.
func TestScreen(t *testing.T) {
	t.Parallel()
	cmd := start(t, "-rate", "30")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 110})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	screen := vt.NewSafeEmulator(110, 40)
	go func() { _, _ = io.Copy(screen, terminal) }()
	go func() { _, _ = io.Copy(terminal, screen) }() // what a terminal answers
	press := func(keys string) { fmt.Fprint(terminal, keys) }
	sees(t, screen, "Three services, three cursors, one stream")
	sees(t, screen, "Stream EVENTS: ")
	press("2")
	sees(t, screen, "> 2 email")
	press("s")
	sees(t, screen, "email is told to stop: SIGTERM")
	sees(t, screen, "2 email      stopped")
	sees(t, screen, "resume at")
	press("r")
	sees(t, screen, "2 email      running")
	press("1k")
	sees(t, screen, "1 inventory  killed")
	press("r")
	sees(t, screen, "1 inventory  running")
	press("4s")
	sees(t, screen, "the server is away")
	sees(t, screen, "4 server     stopped")
	press("r")
	sees(t, screen, "4 server     running")
	press("+")
	sees(t, screen, "60 events a second")
	press("q")
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(60 * time.Second):
		_ = cmd.Process.Kill()
		t.Error("q does not end it")
	}
}

// No line of the screen is wider than the terminal, and the window goes back as far as a cursor has work.
func TestWidths(t *testing.T) {
	t.Parallel()
	tp := &tape.Tape{Stream: stream, First: 1, Last: 5000, Messages: 5000, Cursors: []tape.Cursor{
		{Consumer: "analytics", Delivered: 5000, AckFloor: 4990, Outstanding: 3, Durable: true, Pull: true},
		{Consumer: "email", Delivered: 4000, AckFloor: 3999, Outstanding: 1, Unprocessed: 700, Durable: true, Pull: true},
		{Consumer: "someone-else", Delivered: 1, AckFloor: 1, Unprocessed: 5000},
	}}
	d := &demo{server: &process{name: "server"}, traffic: newTraffic(nil, 20, 1)}
	for _, name := range services {
		d.services = append(d.services, &process{name: name, state: "running", last: strings.Repeat("long ", 100)})
	}
	own := d.only(tp)
	if len(own.Cursors) != 2 || window(own).First != 4000 {
		t.Errorf("%d cursors, from %d", len(own.Cursors), window(own).First)
	}
	for height := 2; height <= 60; height++ {
		m := &model{demo: d, width: 80, height: height, tape: tp, away: true, said: "it was said"}
		text := ansi.Strip(m.text())
		if n := strings.Count(text, "\n") + 1; n > height || !strings.Contains(text, "q quit") || !strings.Contains(text, "it was said") {
			t.Errorf("at %d rows it has %d:\n%s", height, n, text)
		}
		if height < 16 && (strings.Contains(text, "settled") || strings.Contains(text, "one cell")) {
			t.Errorf("at %d rows the legend takes one:\n%s", height, text)
		}
		if height >= 24 && (!strings.Contains(text, "░") || !strings.Contains(text, "4 server") || !strings.Contains(text, "the server is away")) {
			t.Errorf("at %d rows something is missing:\n%s", height, text)
		}
	}
	for width := 20; width <= 200; width += 7 {
		m := &model{demo: d, width: width, height: 40, tape: tp, away: true, said: strings.Repeat("said ", 100)}
		for line := range strings.Lines(m.text()) {
			if w := ansi.StringWidth(strings.TrimSuffix(line, "\n")); w > width && w > 20 {
				t.Errorf("at %d columns a line has %d: %q", width, w, line)
			}
		}
	}
}

// The traffic is what a shop has, the same for a seed, and each order has a number of its own.
func TestTraffic(t *testing.T) {
	t.Parallel()
	a, b := newTraffic(nil, 20, 7), newTraffic(nil, 20, 7)
	kinds, orders := map[string]int{}, map[string]bool{}
	for range 5000 {
		subject, data := a.event()
		if s, d := b.event(); s != subject || d != data {
			t.Fatal("two of one seed differ")
		}
		kinds[subject]++
		if subject == "events.order_placed" {
			orders[data[:len(`{"order_id":"0000"`)]] = true
		}
	}
	if len(kinds) != 4 || len(orders) != kinds["events.order_placed"] || kinds["events.page_loaded"] < 3000 || kinds["events.user_registered"] < 50 {
		t.Errorf("%v, %d orders with a number of their own", kinds, len(orders))
	}
}

// What is wrong on the command line is said; a folder that was not the demo's is not emptied.
func TestCarefully(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"extra"}, {"-rate", "-1"}, {"-for", "-1s"}, {"-nonsense"}} {
		if _, err := parse(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first leaves nothing behind that makes the folder a demo's
		d, err := newDemo(t.Context(), settings{dir: dir, bin: filepath.Join(dir, "none")}, &bytes.Buffer{}, &leftovers{})
		if err == nil {
			_ = d.close()
		}
		if shutdown.ExitCode(err) != shutdown.ExitConfig {
			t.Errorf("a folder of somebody else is used: %v", err)
		}
		if _, err := os.Stat(mine); err != nil {
			t.Error("a file of somebody else is gone")
		}
	}
	own := filepath.Join(dir, "own")
	if d, err := newDemo(t.Context(), settings{dir: own, bin: filepath.Join(dir, "none")}, &bytes.Buffer{}, &leftovers{}); err == nil {
		_ = d.close()
		t.Error("programs that are not there are run")
	}
	unused := filepath.Join(dir, "unused")
	if err := run(t.Context(), settings{dir: unused, record: filepath.Join(dir, "none", "record")}, &bytes.Buffer{}, &leftovers{}); err == nil {
		t.Error("it records into a file that can't be made")
	}
	if _, err := os.Stat(unused); err == nil {
		t.Error("something was started before the file of the record was open")
	}
}
