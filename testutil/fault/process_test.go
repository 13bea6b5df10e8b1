package fault_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil/fault"
)

// sleeperProgram prints a line and sleeps; to a SIGTERM it says a word and ends with 3.
func sleeperProgram() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	fmt.Println("it sleeps")
	for {
		select {
		case <-told:
			fmt.Fprintln(os.Stderr, "it was told")
			os.Exit(3)
		case <-time.After(5 * time.Millisecond):
			fmt.Println("tick")
		}
	}
}

// nesterProgram starts a child of its own, says which, and sleeps.
func nesterProgram() {
	p, err := fault.Child{Name: "sleeper"}.Start()
	if err != nil {
		panic(err)
	}
	fmt.Println("child", p.Pid(), "")
	time.Sleep(time.Hour)
}

// printed waits until the process has printed some words, and returns what it has printed.
func printed(t *testing.T, p *fault.Process, words string) string {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if out := p.Output(); strings.Contains(out, words) {
			return out
		}
		if time.Now().After(limit) {
			t.Fatalf("it has not printed %q but %q", words, p.Output())
		}
	}
}

func TestProcessEndsAsItIsTold(t *testing.T) {
	j := fault.NewJournal(t)
	for _, row := range []struct {
		name string
		end  func(*fault.Process)
		code int
	}{{"terminated", (*fault.Process).Term, 3}, {"killed", (*fault.Process).Kill, -9}} {
		p := fault.Start(t, fault.Child{Name: "sleeper", Journal: j})
		printed(t, p, "it sleeps")
		if _, _, err := p.Exit(time.Millisecond); !errors.Is(err, fault.ErrAlive) {
			t.Errorf("Exit of one that is alive says %v", err)
		}
		row.end(p)
		code, _, err := p.Exit(30 * time.Second)
		if err != nil || code != row.code {
			t.Errorf("%s: it ended with %d, %v, want %d", row.name, code, err, row.code)
		}
		row.end(p) // again: nothing
		events, err := j.Events()
		if err != nil {
			t.Fatal(err)
		}
		if last := events[len(events)-1]; last.Kind != fault.KindSignal || last.Target != p.Pid() || last.Name != row.name {
			t.Errorf("the journal has %+v", last)
		}
	}
	if events, _ := j.Events(); len(events) != 2 {
		t.Errorf("a signal to one that has ended is in the journal: %+v", events)
	}
}

func TestProcessHangs(t *testing.T) {
	p := fault.Start(t, fault.Child{Name: "sleeper"})
	printed(t, p, "tick")
	if err := p.Hang(time.Hour); err != nil {
		t.Fatal(err)
	}
	state := func() string {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.Pid()), "stat"))
		if err != nil {
			t.Skipf("no /proc: %v", err)
		}
		return string(text[strings.LastIndexByte(string(text), ')')+2])
	}
	for limit := time.Now().Add(30 * time.Second); state() != "T"; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("its state is %s", state())
		}
	}
	if err := p.Hang(0); err != nil { // earlier than it was said
		t.Fatal(err)
	}
	for limit := time.Now().Add(30 * time.Second); state() == "T"; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it does not go on")
		}
	}
}

func TestChildEndsWithItsParent(t *testing.T) {
	p := fault.Start(t, fault.Child{Name: "nester"})
	out := printed(t, p, "child")
	var pid int
	if _, err := fmt.Sscanf(out[strings.Index(out, "child"):], "child %d", &pid); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	p.Kill()
	if _, _, err := p.Exit(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(30 * time.Second); !gone(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the child of one that was killed is alive")
		}
	}
}

// gone tells that there is no such process, or only what its parent has not waited for.
func gone(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err != nil || text[strings.LastIndexByte(string(text), ')')+2] == 'Z'
}

func TestChildrenThatCantBe(t *testing.T) {
	p := fault.Start(t, fault.Child{Name: "nobody"})
	if code, _, err := p.Exit(30 * time.Second); err != nil || code != 78 || !strings.Contains(p.Output(), `no program "nobody"`) {
		t.Errorf("it ended with %d, %v, and printed %q", code, err, p.Output())
	}
	p = fault.Start(t, fault.Child{Name: "worker"}) // without a journal
	if code, _, err := p.Exit(30 * time.Second); err != nil || code != 2 || !strings.Contains(p.Output(), "Journal") {
		t.Errorf("it ended with %d, %v, and printed %q", code, err, p.Output())
	}
	if _, err := (fault.Child{Path: "no-such-file"}).Start(); err == nil || !strings.HasPrefix(err.Error(), "fault: starting") {
		t.Errorf("a binary that is missing: %v", err)
	}
	if _, err := fault.NewCrew(2, fault.Child{Path: "no-such-file"}); err == nil {
		t.Error("a crew of a binary that is missing is no error")
	}
}

func TestChildOfAnotherBinary(t *testing.T) {
	var out lines
	p := fault.Start(t, fault.Child{Path: "/bin/sh", Args: []string{"-c", "echo $WORD; exit 4"}, Env: []string{"WORD=hello"}, Output: &out})
	if code, _, err := p.Exit(30 * time.Second); err != nil || code != 4 || p.Output() != "hello\n" || string(out) != "hello\n" {
		t.Errorf("it ended with %d, %v, and printed %q, %q", code, err, p.Output(), out)
	}
}

type lines []byte

func (l *lines) Write(b []byte) (int, error) { *l = append(*l, b...); return len(b), nil }

func TestCrewSaysHowItsWorkersEnd(t *testing.T) {
	crew := fault.StartCrew(t, 2, fault.Child{Name: "sleeper"})
	for _, p := range crew.Processes() {
		printed(t, p, "it sleeps")
	}
	if err := crew.Stop(); err == nil || strings.Count(err.Error(), "it ended with 3") != 2 {
		t.Errorf("Stop says %v", err)
	}
	crew = fault.StartCrew(t, 1, fault.Child{Name: "sleeper"})
	crew.Exited = func(code int, _ time.Duration) error {
		if code != 3 {
			return fmt.Errorf("code %d", code)
		}
		return nil
	}
	printed(t, crew.Processes()[0], "it sleeps")
	before := crew.Processes()[0].Pid()
	if err := crew.TermWorker(time.Second).Do(t.Context(), draw()); err != nil {
		t.Error(err)
	}
	if now := crew.Processes()[0].Pid(); now == before || gone(now) {
		t.Errorf("process %d is there behind %d", now, before)
	}
	printed(t, crew.Processes()[0], "it sleeps")
	if err := crew.Stop(); err != nil {
		t.Error(err)
	}
}
