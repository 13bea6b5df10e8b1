//go:build unix

package drivers

import (
	"bytes"
	"database/sql"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	killSeed     = flag.Uint64("kill.seed", 1, "seed of the schedule of TestKilled; 0: by the clock")
	killMessages = flag.Int("kill.messages", 3000, "messages of each part of TestKilled")
)

// Two worker processes and the server are killed with SIGKILL at random moments. With SQL, every effect is there exactly once, and the table of records is the
// stream. With KV, every effect is there, and of each message there are at most as many effects too many as it was reported to be in doubt.
func TestKilled(t *testing.T) {
	t.Run("SQL", killedSQL)
	t.Run("KV", killedKV)
}

func killedSQL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.db")
	db, err := sql.Open("sqlite", sqliteDSN(path))
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	for _, q := range []string{"CREATE TABLE total (sum INTEGER NOT NULL)", "INSERT INTO total VALUES (0)",
		"CREATE TABLE effects (sequence BIGINT NOT NULL, consumer TEXT)"} {
		_, err := db.ExecContext(t.Context(), q)
		must(t, err)
	}
	n := *killMessages
	kill(t, "sql", path, func() bool { return count(t, db, "effects") >= n })
	var sum int
	must(t, db.QueryRowContext(t.Context(), "SELECT sum FROM total").Scan(&sum))
	if want := n * (n - 1) / 2; sum != want {
		t.Errorf("the sum is %d, not %d", sum, want)
	}
	stream := fmt.Sprintf("(SELECT sequence FROM %%s GROUP BY sequence HAVING COUNT(*) = 1 AND sequence BETWEEN 1 AND %d)", n)
	for _, table := range []string{"effects", "ackfloor_once"} {
		if rows, exact := count(t, db, table), count(t, db, fmt.Sprintf(stream, table)); rows != n || exact != n {
			t.Errorf("%s has %d rows, and %d of %d messages exactly once", table, rows, exact, n)
		}
	}
}

func killedKV(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines")
	n := *killMessages
	kill(t, "kv", path, func() bool { return len(lines(t, path, "line")) >= n })
	made, doubts := lines(t, path, "line"), lines(t, path, "doubt")
	again, reported := 0, 0
	for seq := 1; seq <= n; seq++ {
		if made[seq] == 0 {
			t.Errorf("message %d had no effect", seq)
		}
		if made[seq]-1 > doubts[seq] {
			t.Errorf("message %d had %d effects, and was reported %d times", seq, made[seq], doubts[seq])
		}
		again += max(0, made[seq]-1)
		reported += doubts[seq]
	}
	t.Logf("%d effects of %d messages: %d too many, %d possible duplicates reported", again+n, n, again, reported)
}

// kill runs two workers of a kind on a stream of messages, and kills what runs until done.
func kill(t *testing.T, kind, out string, done func() bool) {
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	server := testutil.ServerProcess(t)
	server.Events(t, *killMessages)
	workers := []*process{spawn(t, kind, server.URL(), out), spawn(t, kind, server.URL(), out)}
	between := func(ms int) time.Time { return time.Now().Add(time.Duration(rng.IntN(2*ms)) * time.Millisecond) }
	killed, restarted := 0, 0
	began := time.Now()
	nextWorker, nextServer := between(400), between(1500)
	for deadline := began.Add(time.Duration(*killMessages) * 20 * time.Millisecond).Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not done after %v", time.Since(began))
		}
		if time.Now().After(nextWorker) {
			i := rng.IntN(len(workers))
			workers[i].end(syscall.SIGKILL)
			workers[i] = spawn(t, kind, server.URL(), out)
			killed++
			nextWorker = between(400)
		}
		if time.Now().After(nextServer) {
			server.Kill()
			server.Start()
			restarted++
			nextServer = between(1500)
		}
	}
	t.Logf("%d workers and %d servers killed in %v", killed, restarted, time.Since(began).Round(time.Millisecond))
	server.WaitInfo(t, "EVENTS", "D", time.Minute, "everything settled", func(i *jetstream.ConsumerInfo) bool {
		return i.AckFloor.Stream == uint64(*killMessages) && i.NumAckPending == 0
	})
	for _, w := range workers {
		if code := w.end(syscall.SIGTERM); code != 0 {
			t.Errorf("a worker ended with %d", code)
		}
	}
	dead, err := server.JetStream(t).Stream(t.Context(), "EVENTS_DLQ")
	if err == nil && dead.CachedInfo().State.Msgs > 0 {
		t.Errorf("%d dead letters", dead.CachedInfo().State.Msgs)
	}
}

// process is a worker.
type process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  chan struct{}
}

func spawn(t *testing.T, kind, url, out string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "ACKFLOOR_ONCE_CHILD="+kind, "OUT="+out, "NATS_URL="+url, "WORKER_STREAM=EVENTS", "WORKER_CONSUMER=D",
		"WORKER_CONCURRENCY=8", "WORKER_ACK_WAIT=1s", "WORKER_HANDLE_TIMEOUT=1s", "WORKER_MAX_ATTEMPTS=1000", "WORKER_RETRY=20ms..200ms", "WORKER_LOG_LEVEL=error")
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = endWithParent(nil)
	must(t, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		p.end(syscall.SIGKILL)
		if t.Failed() && p.stderr.Len() > 0 {
			t.Logf("a worker's standard error:\n%s", p.stderr.String())
		}
	})
	return p
}

// end ends the process with a signal and returns its exit code.
func (p *process) end(s syscall.Signal) int {
	_ = p.cmd.Process.Signal(s)
	<-p.ended
	return p.cmd.ProcessState.ExitCode()
}

// lines counts the lines of the file by their sequence.
func lines(t *testing.T, path, word string) map[int]int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	seen := map[int]int{}
	for line := range strings.Lines(string(b)) {
		if first, number, _ := strings.Cut(strings.TrimSpace(line), " "); first == word {
			seq, err := strconv.Atoi(number)
			must(t, err)
			seen[seq]++
		}
	}
	return seen
}
