package fault_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/ackfloor/ackfloor/testutil/fault"
)

// What holds under every fault.
var always = []fault.Invariant{fault.NoSkip, fault.NothingUnexpected, fault.NoEarlyAck, fault.LettersOnce, fault.Slots(slots), fault.Bounded(200, 256<<20),
	fault.Progress(15 * time.Second)}

// What holds as well wherever the servers keep what they have confirmed, which one without replicas does not that is killed.
var replicated = append([]fault.Invariant{fault.NothingConfirmedAgain, fault.FloorKept, fault.OneVerdict}, always...)

// What holds as well where no server is killed. (The leader of a consumer forgets with its end what it had delivered in its last moments.)
var kept = append([]fault.Invariant{fault.OnlyHeldAgain}, replicated...)

// What holds as well where no worker is killed.
var clean = append([]fault.Invariant{fault.NothingAgain}, kept...)

// Each fault with what holds under it. Go on for as long as you like, with a seed of your own:
//
//	go test ./testutil/fault -run TestInvariants -v -fault.seed 0 -fault.for 2m
func TestInvariants(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds nats-server")
	}
	const down = 200 * time.Millisecond
	failing := []string{"FAIL_EVERY=5", "RETRY_EVERY=7", "WORKER_RETRY=50ms"}
	for _, row := range []struct {
		name    string
		workers int
		env     []string
		holds   []fault.Invariant
		fault   func(crew *fault.Crew, s *testutil.P) []fault.Fault
	}{
		{"SIGTERM of workers and server", 2, nil, clean, func(c *fault.Crew, s *testutil.P) []fault.Fault {
			return []fault.Fault{c.TermWorker(500 * time.Millisecond), fault.StopServer(s, 700*time.Millisecond, down)}
		}},
		{"SIGSTOP of worker and server, order by key", 1, []string{"KEYS=1"}, append(clean[:len(clean):len(clean)], fault.KeysInOrder),
			func(c *fault.Crew, s *testutil.P) []fault.Fault {
				return []fault.Fault{c.HangWorker(400*time.Millisecond, 400*time.Millisecond), fault.HangServer(s, 500*time.Millisecond, 400*time.Millisecond)}
			}},
		{"SIGKILL of workers", 2, failing, kept, func(c *fault.Crew, _ *testutil.P) []fault.Fault {
			return []fault.Fault{c.KillWorker(400 * time.Millisecond)}
		}},
		{"kill -9 of the server", 2, nil, append(always[:len(always):len(always)], fault.NothingAgain, fault.NothingConfirmedAgain), func(_ *fault.Crew, s *testutil.P) []fault.Fault {
			return []fault.Fault{fault.KillServer(s, 500*time.Millisecond, down)}
		}},
		{everything, 2, failing, always, func(c *fault.Crew, s *testutil.P) []fault.Fault {
			return []fault.Fault{c.TermWorker(700 * time.Millisecond), c.KillWorker(700 * time.Millisecond), c.HangWorker(700*time.Millisecond, 300*time.Millisecond),
				fault.StopServer(s, 900*time.Millisecond, down), fault.KillServer(s, 900*time.Millisecond, down)}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := testutil.ServerProcess(t)
			tr := trial(t, s, 1, row.env...)
			tr.Workers = row.workers
			if row.name == everything {
				tr.Exited, tr.Times = unconfirmed, max(*times, 1)
			}
			tr.Faults = func(c *fault.Crew) []fault.Fault { return row.fault(c, s) }
			tr.Test(t, row.holds...)
		})
	}
}

const everything = "all of it"

// unconfirmed allows a worker that is told to end to leave something unconfirmed, as it does when it does not find its server within three seconds.
func unconfirmed(code int, took time.Duration) error {
	if code != 0 && code != 75 && code != -int(syscall.SIGTERM) {
		return fmt.Errorf("it ended with %d after %v", code, took)
	}
	return nil
}

func TestInvariantsInLameDuckMode(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds nats-server")
	}
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte("lame_duck_duration: 30s\nlame_duck_grace_period: 100ms\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := testutil.ServerProcess(t, "-c", config)
	tr := trial(t, s, 1)
	tr.Times = max(*times, 1)
	tr.Faults = func(*fault.Crew) []fault.Fault {
		return []fault.Fault{fault.LameDuck(s, 500*time.Millisecond, 200*time.Millisecond)}
	}
	tr.Test(t, clean...)
}

// The same with three servers and three replicas.
func TestInvariantsInACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds nats-server")
	}
	const down = 200 * time.Millisecond
	for _, row := range []struct {
		name  string
		holds []fault.Invariant
		fault func(crew *fault.Crew, c fault.Cluster) []fault.Fault
	}{
		{"the leader moves, SIGTERM of workers", clean, func(w *fault.Crew, c fault.Cluster) []fault.Fault {
			return []fault.Fault{c.MoveLeader(300 * time.Millisecond), w.TermWorker(500 * time.Millisecond)}
		}},
		{"kill -9 of leader and follower, loss of the majority", replicated, func(_ *fault.Crew, c fault.Cluster) []fault.Fault {
			all := []fault.Fault{c.KillLeader(300*time.Millisecond, down), c.LoseMajority(400*time.Millisecond, down)}
			if *times > 0 || *long > 0 { // seconds more, and the loss of a majority kills followers too
				all = append(all, c.KillFollower(200*time.Millisecond, down))
			}
			return all
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := testutil.ProcessCluster(t, 3)
			// Without dead letters and records there are two groups of servers that elect a leader, and not seven.
			tr := trial(t, s, 3, "WORKER_DEAD_LETTER=off", "WORKER_RECORDS=off")
			tr.Times, tr.DeadLetters = max(*times, 1), ""
			tr.Waiting = 2 * time.Second // the confirmation of an ack, and a new leader that hands its message to the other worker, may cross
			tr.Faults = func(c *fault.Crew) []fault.Fault {
				all := row.fault(c, fault.Cluster{Servers: s, JS: tr.JS, Stream: stream, Consumer: consumer})
				for i := range all {
					if *long == 0 {
						all[i].Most = tr.Times // an election takes seconds
					}
				}
				return all
			}
			tr.Test(t, row.holds...)
		})
	}
}

// The disk of the server's store is full for a while.
func TestInvariantsOnAFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds nats-server")
	}
	disk := fault.SmallDisk(t, 24<<20)
	s := testutil.ServerProcess(t, "-sd", disk.Path)
	tr := trial(t, s, 1, "WORKER_DEAD_LETTER_BYTES=1048576")
	tr.Faults = func(*fault.Crew) []fault.Fault {
		return []fault.Fault{disk.Full(500*time.Millisecond, 500*time.Millisecond, s.Restart)}
	}
	tr.Test(t, clean...)
}
