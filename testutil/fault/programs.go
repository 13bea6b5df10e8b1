package fault

import (
	"fmt"
	"os"
	"testing"
)

// Programs are what a binary can run as a child, by name: Child.Name chooses one. A program is the main of a process: it may call os.Exit, and
// when it returns the process ends with 0.
type Programs map[string]func()

// Main is the whole of a TestMain: it runs the tests, or, in a process that was started as a Child, that child's program.
//
//	func TestMain(m *testing.M) { fault.Main(m, fault.Programs{"orders": orders}) }
func Main(m *testing.M, programs Programs) {
	RunChild(programs)
	os.Exit(m.Run())
}

// RunChild returns at once in a process that was not started as a Child. In one that was it runs the program and never returns. Call it first in
// a TestMain that has more to do, or in the main of a program whose children are itself.
func RunChild(programs Programs) {
	name, ok := os.LookupEnv(childVariable)
	if !ok {
		return
	}
	program := programs[name]
	if program == nil {
		fmt.Fprintf(os.Stderr, "fault: this binary has no program %q\n", name)
		os.Exit(78)
	}
	_ = os.Unsetenv(childVariable) // a child of the child is none of ours
	program()
	os.Exit(0)
}

// ChildJournal opens the journal that the child was started with. It panics without one: a child that works beside its journal shows nothing.
func ChildJournal() *Journal {
	path := os.Getenv(journalVariable)
	if path == "" {
		panic("fault: this process was not started by a Child with a Journal")
	}
	j, err := OpenJournal(path)
	if err != nil {
		panic(err)
	}
	return j
}
