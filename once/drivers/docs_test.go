//go:build unix

package drivers

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// The programs of the manual do what they say, with a driver beside them.
func TestProgramsOfTheManual(t *testing.T) {
	text, err := os.ReadFile("../../docs/howto-once.md")
	must(t, err)
	programs := regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllStringSubmatch(string(text), -1)
	if len(programs) != 2 {
		t.Fatalf("there are %d programs", len(programs))
	}
	for i, p := range programs {
		dir, err := os.MkdirTemp(".", "docs_test_") // inside the module, so that it sees its dependencies
		must(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(p[1]), 0o644))
		must(t, os.WriteFile(filepath.Join(dir, "driver.go"), []byte("package main\n\nimport _ \"modernc.org/sqlite\"\n"), 0o644))
		binary := filepath.Join(t.TempDir(), "program")
		if out, err := exec.Command("go", "build", "-o", binary, "./"+dir).CombinedOutput(); err != nil {
			t.Fatalf("program %d: %v\n%s", i, err, out)
		}
		runProgram(t, binary, i == 0)
	}
}

func runProgram(t *testing.T, binary string, stock bool) {
	t.Helper()
	s := testutil.Server(t)
	s.Stream(t, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	js := s.JetStream(t)
	for range 10 {
		_, err := js.Publish(t.Context(), "orders.new", []byte(`{"sku":"a","quantity":2}`))
		must(t, err)
	}
	work := t.TempDir()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(work, "stock.db")+"?_pragma=busy_timeout(10000)")
	must(t, err)
	defer db.Close()
	for _, q := range []string{"CREATE TABLE stock (sku TEXT PRIMARY KEY, available INTEGER)", "INSERT INTO stock VALUES ('a', 100)"} {
		_, err := db.ExecContext(t.Context(), q)
		must(t, err)
	}
	for _, round := range []string{"first", "again"} {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "NATS_URL="+s.URL(), "WORKER_STREAM=ORDERS", "WORKER_CONSUMER=stock", "WORKER_EXIT_WHEN_IDLE=true", "WORKER_LOG_FORMAT=json")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), `"acked":10`) {
			t.Fatalf("%s: %v\n%s", round, err, out)
		}
		must(t, js.DeleteConsumer(t.Context(), "ORDERS", "stock"))
	}
	var available int
	must(t, db.QueryRowContext(t.Context(), "SELECT available FROM stock").Scan(&available))
	if want := map[bool]int{true: 80, false: 100}[stock]; available != want {
		t.Errorf("%d are available, not %d", available, want)
	}
}
