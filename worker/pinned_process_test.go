package worker

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/shutdown"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/nats-io/nats.go/jetstream"
)

// keyedChild is a program whose Runner, or one for each of PARTITIONS, keeps the messages of a subject's last token in order. It writes "end <sequence> <process> <subject> <time>".
func keyedChild(out *os.File) {
	work, _ := time.ParseDuration(os.Getenv("WORK"))
	h := ackfloor.HandlerFunc(func(ctx context.Context, m *ackfloor.Message) error {
		time.Sleep(work)
		_, err := fmt.Fprintln(out, "end", m.Sequence, os.Getpid(), m.Subject, time.Now().UnixMilli())
		return err
	})
	shutdown.Main(shutdown.Part{Name: "keyed", Run: func(ctx context.Context) error {
		fmt.Fprintln(out, "up", os.Getpid()) // signals are waited for from before this on
		cfg, err := FromEnv("")
		if err != nil {
			return err
		}
		nc, err := Connect(ctx, cfg.Connection)
		if err != nil {
			return err
		}
		defer nc.Close()
		cfg.Key = ackfloor.KeyBySubject(-1)
		if os.Getenv("UNORDERED") != "" {
			cfg.Key = nil
		}
		parts := []Config{cfg}
		if n, _ := strconv.Atoi(os.Getenv("PARTITIONS")); n > 0 {
			if parts, err = Partitions(cfg, n); err != nil {
				return err
			}
		}
		var runners []*Runner
		for _, p := range parts {
			r, err := New(nc, p, h)
			if err != nil {
				return err
			}
			runners = append(runners, r)
		}
		return RunAll(ctx, runners...)
	}})
}

// success is a line of the journal.
type success struct {
	seq     uint64
	pid     int
	subject string
	at      time.Time
}

func journal(t *testing.T, out string) (all []success) {
	t.Helper()
	f, err := os.Open(out)
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		w := strings.Fields(lines.Text())
		if len(w) != 5 {
			continue
		}
		seq, err := strconv.ParseUint(w[1], 10, 64)
		must(t, err)
		pid, _ := strconv.Atoi(w[2])
		ms, _ := strconv.ParseInt(w[4], 10, 64)
		all = append(all, success{seq, pid, w[3], time.UnixMilli(ms)})
	}
	return all
}

// inStreamOrder fails the test unless n messages succeeded, those of each subject first in stream order. It returns how many succeeded again.
func inStreamOrder(t *testing.T, all []success, n int) (again int) {
	t.Helper()
	seen := map[uint64]bool{}
	order := map[string][]uint64{}
	for _, s := range all {
		if seen[s.seq] {
			again++
			continue
		}
		seen[s.seq] = true
		order[s.subject] = append(order[s.subject], s.seq)
	}
	for subject, o := range order {
		if !slices.IsSorted(o) {
			for i := 1; i < len(o); i++ {
				if o[i] < o[i-1] {
					t.Errorf("%s: %d before %d", subject, o[i-1], o[i])
				}
			}
		}
	}
	if len(seen) != n {
		t.Errorf("%d of %d succeeded", len(seen), n)
	}
	return again
}

// pinnedFleet is three processes on one stream of keyed messages.
type pinnedFleet struct {
	t      *testing.T
	server *testutil.P
	out    string
	env    []string
	kids   []*kid
}

func newPinnedFleet(t *testing.T, n, keys int, env ...string) *pinnedFleet {
	t.Helper()
	f := &pinnedFleet{t: t, server: testutil.ServerProcess(t), out: filepath.Join(t.TempDir(), "out")}
	f.env = append([]string{"WORKER_PINNED_TTL=1s", "WORKER_ACK_WAIT=2s", "WORKER_CONCURRENCY=8", "WORKER_MAX_ACK_PENDING=200", "WORKER_LOG_LEVEL=warn",
		"WORKER_DRAIN_TIMEOUT=10s"}, env...)
	cfg := jetstream.StreamConfig{Name: rigStream, Subjects: []string{"events.*"}}
	if slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "PARTITIONS") }) {
		cfg.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "events.*", Destination: "events.{{partition(3,1)}}.{{wildcard(1)}}"}
	}
	f.server.Stream(t, cfg)
	js := f.server.JetStream(t)
	for i := range n {
		_, err := js.PublishAsync(fmt.Sprintf("events.k%d", i%keys), nil)
		must(t, err)
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(20 * time.Second):
		t.Fatal("not published")
	}
	for range 3 {
		f.start()
	}
	return f
}

func (f *pinnedFleet) start() {
	f.t.Helper()
	k := spawn(f.t, "keyed", f.server.URL(), f.out, f.env...)
	f.kids = append(f.kids, k)
	for deadline := time.Now().Add(10 * time.Second); events(f.t, f.out, "up")[uint64(k.cmd.Process.Pid)] == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatal("a process does not start")
		}
	}
}

// hit sends a signal to a process, which is replaced by a new one.
func (f *pinnedFleet) hit(i int, s syscall.Signal) {
	f.t.Helper()
	k := f.kids[i]
	k.signal(s)
	if code, took := k.exit(15 * time.Second); s == syscall.SIGTERM && code != 0 {
		f.t.Errorf("a worker ended with code %d after %v", code, took)
	}
	f.kids = slices.Delete(f.kids, i, i+1)
	f.start()
}

// works is the process that has handled the last message, or -1.
func (f *pinnedFleet) works(all []success) int {
	if len(all) == 0 {
		return -1
	}
	return slices.IndexFunc(f.kids, func(k *kid) bool { return k.cmd.Process.Pid == all[len(all)-1].pid })
}

func (f *pinnedFleet) end() {
	f.t.Helper()
	for _, k := range f.kids {
		k.signal(syscall.SIGTERM)
	}
	for _, k := range f.kids {
		if code, _ := k.exit(15 * time.Second); code != 0 {
			f.t.Errorf("a worker ended with code %d", code)
		}
	}
}

// Three processes are stopped or killed at random, mostly the one that works, and the server is restarted: messages of a key succeed in stream order over all of them, and none is lost;
// where all stops are clean none is handled twice.
//
//	go test ./worker -run TestOrderOverProcesses -restart.seed 7 -v
func TestOrderOverProcesses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		signals []syscall.Signal
		env     []string
	}{
		"stopped":            {[]syscall.Signal{syscall.SIGTERM}, nil},
		"killed and stopped": {[]syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}, nil},
		"in partitions":      {[]syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}, []string{"PARTITIONS=3", "WORKER_FILTER=events.*.*", "WORKER_CONCURRENCY=3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n, keys, hits = 10000, 30, 8
			seed := *restartSeed
			if seed == 0 {
				seed = uint64(time.Now().UnixNano())
			}
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 2))
			f := newPinnedFleet(t, n, keys, append([]string{"WORK=6ms"}, tc.env...)...)
			next, done := time.Now().Add(time.Second), 0
			for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
				all := journal(t, f.out)
				if len(slices.Compact(sequences(all))) == n {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("not done after two minutes: %d of %d", len(slices.Compact(sequences(all))), n)
				}
				if time.Now().Before(next) || done == hits {
					continue
				}
				done++
				if done == hits/2 {
					f.server.Restart()
				}
				i := f.works(all)
				if i < 0 || rng.IntN(3) == 0 {
					i = rng.IntN(len(f.kids))
				}
				f.hit(i, tc.signals[rng.IntN(len(tc.signals))])
				next = time.Now().Add(time.Duration(200+rng.IntN(800)) * time.Millisecond)
			}
			f.end()
			again := inStreamOrder(t, journal(t, f.out), n)
			t.Logf("lost 0, handled again %d, %d processes stopped or killed", again, done)
			if len(tc.signals) == 1 && again > 0 {
				t.Errorf("%d were handled twice", again)
			}
			if done < 3 {
				t.Error("too little was stopped to show anything")
			}
		})
	}
}

func sequences(all []success) (seqs []uint64) {
	for _, s := range all {
		seqs = append(seqs, s.seq)
	}
	slices.Sort(seqs)
	return seqs
}

// How long nothing is handled when the process that works is stopped, or killed.
func TestTakeOverTimes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		signal syscall.Signal
		env    string
		limit  time.Duration
	}{
		"stopped, in order":     {syscall.SIGTERM, "", time.Second},
		"stopped, without keys": {syscall.SIGTERM, "UNORDERED=1", time.Second},
		"killed, in order":      {syscall.SIGKILL, "", 3500 * time.Millisecond},
		"killed, without keys":  {syscall.SIGKILL, "UNORDERED=1", 2500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 3000
			f := newPinnedFleet(t, n, 30, "WORK=10ms", tc.env)
			f.kids[0].waitFor("end", 300, 10*time.Second)
			all := journal(t, f.out)
			f.hit(f.works(all), tc.signal)
			f.kids[0].waitFor("end", n, 30*time.Second)
			f.end()
			var longest time.Duration
			all = journal(t, f.out)
			for i := 1; i < len(all); i++ {
				longest = max(longest, all[i].at.Sub(all[i-1].at))
			}
			t.Logf("nothing was handled for %v", longest)
			if longest > tc.limit {
				t.Errorf("nothing was handled for %v", longest)
			}
		})
	}
}
